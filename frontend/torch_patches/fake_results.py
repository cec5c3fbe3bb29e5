"""Results of fake operators that PyTorch has wrong, by which kernels would read or write other elements.

Its tables are corrected for good: graphs come from Dynamo, `torch.export` and our own passes, and each runs operators on fake tensors. How
PyTorch keeps what it traces an operator with is private to it. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from bascule.compat.tensors.fake_tensors import FakeTensorMode, op_implementations_dict, registered_hop_fake_fns
from bascule.compat.versions import running

aten = torch.ops.aten

NANSUM = aten.nansum.default
UNIQUE = (aten._unique2.default, aten.unique_dim.default, aten.unique_consecutive.default)


def _over_all(mode: Any, operator: Any, x: torch.Tensor, dim: Any = None, keepdim: bool = False, **dtype: Any) -> Any:
    if dim is None or len(dim):
        return NotImplemented
    return operator(x, None, keepdim, **dtype)


def _with_integers(traced: Callable[..., Any]) -> Callable[..., Any]:
    def right(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        values, *more = traced(*args, **kwargs)
        return values, *(x if x.dtype == torch.int64 else x.new_empty(x.shape, dtype=torch.int64) for x in more)

    return right


@cache
def correct() -> None:
    """Corrects the tables, once, with which Dynamo may have traced before."""
    _correct_nansum()
    _correct_unique_indices()
    _correct_set_data()
    _correct_dropout()
    _correct_attention()


def _correct_nansum() -> None:
    """`nansum` over an empty list of dimensions is over all of them, as eager has it: it is traced with the sizes of its input."""
    if NANSUM not in op_implementations_dict:
        op_implementations_dict[NANSUM] = _over_all
        FakeTensorMode.cache_clear()


def _correct_unique_indices() -> None:
    """The indices and counts of `torch.unique` are integers: 2.11 traces them with the element type of the values."""
    if running("torch") == (2, 11):
        op_implementations_dict.update({op: _with_integers(op_implementations_dict[op]) for op in UNIQUE})


def _correct_set_data() -> None:
    """`x.data = y` gives `x` other sizes and memory. 2.14 does not mark its operator so: it keeps a result, with which `x` stays as it was."""
    operator = getattr(aten, "shallow_copy_data_", None)
    if operator is not None and torch.Tag.inplace_view not in operator.default.tags:
        operator.default.tags.append(torch.Tag.inplace_view)
        FakeTensorMode.cache_clear()


def _correct_dropout() -> None:
    """A dropout that drops nothing, of p = 0 or not in training, is its input itself, which has what is written to the result. Before 2.14 it is
    traced as a copy."""
    if running("torch") < (2, 14):
        kernels = aten.dropout.default.py_kernels
        kernels.update(dict.fromkeys(kernels, _dropout))
        aten.dropout.default._dispatch_cache.clear()


def _dropout(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    return aten.native_dropout(x, p, train)[0] if train and p != 0 else x


def _correct_attention() -> None:
    """`flex_attention` of f64 has the logarithms and maxima of its rows in f64: they are traced as f32."""
    operator = torch.ops.higher_order.flex_attention
    registered_hop_fake_fns[operator] = _in_precision(registered_hop_fake_fns[operator])
    FakeTensorMode.cache_clear()


def _in_precision(traced: Callable[..., Any]) -> Callable[..., Any]:
    def right(query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        results = traced(query, *args, **kwargs)
        if results is NotImplemented or query.dtype != torch.float64:
            return results
        out, *of_rows = results
        return out, *(x if x.dtype == torch.float64 else x.new_empty(x.shape, dtype=torch.float64) for x in of_rows)

    return right
