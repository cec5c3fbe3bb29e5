"""Our stages among PyTorch's logs: `TORCH_LOGS="+bascule"` (times of stages), `TORCH_LOGS=output_code` (generated modules), and artifacts for
`tlparse` (`TORCH_TRACE=directory`), the IR at each stage and the module. Names private modules of PyTorch; checked on torch 2.13.
"""

from collections.abc import Callable

from torch._logging import getArtifactLogger, trace_structured

# Under a name of torch's, whose handlers print it.
output_code = getArtifactLogger("torch._dynamo.backends.bascule", "output_code")


def trace(name: str, text: Callable[[], str]) -> None:
    """An artifact called `name`; `text` is only asked for where a trace is kept."""
    trace_structured("artifact", metadata_fn=lambda: {"name": name, "encoding": "string"}, payload_fn=text)
