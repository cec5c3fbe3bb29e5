"""The indices and counts of `torch.unique` are integers.

PyTorch 2.11 traces them with the element type of the values, so that kernels would read other bits; later versions are right. With 2.11 its
table is corrected for good: graphs come from Dynamo, `torch.export` and our own passes, and each runs operators on fake tensors.

How PyTorch keeps what it traces an operator with is private to it. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Callable
from typing import Any

import torch

from bascule.compat.tensors.fake_tensors import op_implementations_dict
from bascule.compat.versions import running

aten = torch.ops.aten

OPERATORS = (aten._unique2.default, aten.unique_dim.default, aten.unique_consecutive.default)


def _with_integers(traced: Callable[..., Any]) -> Callable[..., Any]:
    def right(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        values, *more = traced(*args, **kwargs)
        return values, *(x if x.dtype == torch.int64 else x.new_empty(x.shape, dtype=torch.int64) for x in more)

    return right


def correct_unique_indices() -> None:
    if running("torch") == (2, 11):
        op_implementations_dict.update({op: _with_integers(op_implementations_dict[op]) for op in OPERATORS})
