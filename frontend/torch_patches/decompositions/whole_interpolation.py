"""Interpolation traced as one operator each way, forward and backward.

Where gradients are traced PyTorch takes it apart before autograd sees it: the backward then is a sum at indices that might be anything, though
none depends on data. Inside `whole_resampling` autograd's own formulas are at work instead, with operators that have rules
(`frontend/rules/spatial/interpolation.py`).

How PyTorch keeps such decompositions is private to it. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from bascule.compat.operators.dispatch import DispatchKey
from bascule.compat.operators.schemas import OpOverload
from bascule.compat.tensors.layouts import suggest_memory_format, upsample_compute_output_size

from ..patch import Patch

aten = torch.ops.aten

# Each with the number of arguments between sizes and factors.
OPERATORS = {
    aten.upsample_nearest1d: 0,
    aten.upsample_nearest2d: 0,
    aten.upsample_nearest3d: 0,
    aten._upsample_nearest_exact1d: 0,
    aten._upsample_nearest_exact2d: 0,
    aten._upsample_nearest_exact3d: 0,
    aten.upsample_linear1d: 1,
    aten.upsample_bilinear2d: 1,
    aten.upsample_trilinear3d: 1,
    aten.upsample_bicubic2d: 1,
}
# Which autograd sees whole by itself: of these the gradients alone are of interest.
WHOLE = {aten._upsample_bilinear2d_aa: 1, aten._upsample_bicubic2d_aa: 1}
KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}  # by the number of dimensions that are resampled
REPLACED = (*KEYS, DispatchKey.Meta)
Kernels = dict[DispatchKey, Callable[..., Any]]

_theirs: dict[OpOverload, Kernels] = {}


@cache
def _kernels() -> dict[OpOverload, Kernels]:
    """Ours; asked for before any are in force."""
    found: dict[OpOverload, Kernels] = {}
    for packet, between in OPERATORS.items():
        forward, form = packet.default, packet.vec
        found[forward] = {key: _of_any_batch(kernel) for key, kernel in _metas(forward).items()}
        found[form] = _metas(form) | dict.fromkeys(KEYS, _with_sizes(forward, between))
    for packet, between in (OPERATORS | WHOLE).items():
        backward = getattr(aten, f"{packet.__name__}_backward").default
        found[backward] = _metas(backward) or {DispatchKey.Meta: _gradient_of_sizes(backward, between)}
    return found


def _metas(operator: OpOverload) -> Kernels:
    return {key: kernel for key, kernel in operator.py_kernels.items() if key == DispatchKey.Meta}


def _of_any_batch(kernel: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """PyTorch's shape function, whose check of the other sizes fails where a batch is empty, or as large as data says."""

    def shaped(x: torch.Tensor, sizes: Sequence[Any], *rest: Any) -> torch.Tensor:
        samples, *others = x.shape
        if not isinstance(samples, int):  # asks nothing of their number: one sample lies as all do
            one = kernel(x.new_empty_strided((1, *others), x.stride()), sizes, *rest)
            return x.new_empty_strided((samples, *one.shape[1:]), one.stride())
        if samples == 0 and all(others):
            return x.new_empty([samples, others[0], *sizes])
        return kernel(x, sizes, *rest)

    return shaped


def _gradient_of_sizes(backward: OpOverload, between: int) -> Callable[..., torch.Tensor]:
    """The shape function of `backward`, whose own takes no symbols."""
    kept = _keeps_channels_last(backward, between)

    def shaped(grad: torch.Tensor, sizes: Sequence[Any], input_sizes: Sequence[Any], *rest: Any) -> torch.Tensor:
        form = suggest_memory_format(grad) if kept else torch.contiguous_format
        return grad.new_empty(input_sizes).to(memory_format=form)

    return shaped


def _keeps_channels_last(backward: OpOverload, between: int) -> bool:
    """Asks the operator itself: some give row-major gradients whatever they are given."""
    (dimensions,) = (argument.N for argument in backward._schema.arguments if argument.name == "output_size")
    if dimensions not in CHANNELS_LAST:
        return False
    sizes = [2, 3, *[2] * dimensions]
    grad = torch.empty(sizes, device="meta", memory_format=CHANNELS_LAST[dimensions])
    return not backward(grad, sizes[2:], sizes, *[False] * between).is_contiguous()


def _with_sizes(operator: OpOverload, between: int) -> Callable[..., torch.Tensor]:
    """The form of `operator` that takes sizes or factors."""

    def form(x: torch.Tensor, sizes: Sequence[Any] | None, *rest: Any) -> torch.Tensor:
        given, factors = rest[:between], rest[between] if len(rest) > between else None
        sizes = upsample_compute_output_size(x.size(), sizes, factors)
        return operator(x, sizes, *given, *(factors or [None] * len(sizes)))

    return form


def _replaced(operator: OpOverload, kernels: Kernels) -> Kernels:
    """Gives `operator` these in place of its kernels for `REPLACED`, which are returned."""
    before = {key: operator.py_kernels.pop(key) for key in REPLACED if key in operator.py_kernels}
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()
    return before


def _make() -> None:
    for operator, ours in _kernels().items() if not _theirs else ():
        _theirs[operator] = _replaced(operator, ours)


def _undo() -> None:
    for operator, theirs in _theirs.items():
        _replaced(operator, theirs)
    _theirs.clear()


# Inside, an interpolation is traced as its operator with sizes, and its gradient as the operator that autograd has for it.
whole_resampling = Patch(_make, _undo)
