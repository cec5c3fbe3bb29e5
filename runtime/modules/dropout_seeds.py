"""Seeds of dropout that an attention of PyTorch's returns and its backward reads: on the host, or on the GPU while a CUDA graph is recorded.

Either operator looks only whether it is recorded itself, and reads the address as one of the host's or of the device's. A backward that is not
recorded may follow a forward that was (it runs for the first time, or its sizes are too many), which would end the process.
"""

from collections.abc import Callable
from typing import Any

import torch

from bascule.compat.operators.dropout_seeds import seeds_of


def seeds_where_read(operator: Any) -> Callable[..., Any]:
    """`operator` with seeds where it reads them. Waits for the GPU where they are to be on the host and are not."""
    places = seeds_of(operator)

    def call(*args: Any, **kwargs: Any) -> Any:
        gradient = args[0]
        recorded = gradient.is_cuda and torch.cuda.is_current_stream_capturing()
        if not gradient.is_cuda or all(args[place].is_cuda == recorded for place in places):
            return operator(*args, **kwargs)
        given = list(args)
        for place in places:
            given[place] = given[place].to(gradient.device if recorded else "cpu")
        return operator(*given, **kwargs)

    return call
