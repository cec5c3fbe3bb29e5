"""How far results may be from the exact ones: element by element, beside the L2 norm of all of them.

An element is right if it is within `STEPS` representable numbers of the exact one, or as near to it as the roundings on the way explain: those
of eager, of the same program in f32, and their mean over the tensor, all scaled to the dtype. Numbers that are no numbers, infinities,
integers and booleans are as in eager, or as in f64.
"""

from collections.abc import Sequence

import torch
from bascule.dialect.interpreter import tolerance_of
from torch import Tensor

STEPS = 4  # representable numbers
NOISE = 8  # roundings of an element may add up to as many times eager's
NOISE_OF_F64 = 128  # the exact result has eager's own roundings then, and they are not seen


def steps_between(x: Tensor, y: Tensor) -> Tensor:
    """How many representable numbers of the tensors' dtype lie from `x` to `y`, elementwise; of NaN nothing that counts."""
    return (_ordered(x) - _ordered(y)).abs()


def _ordered(x: Tensor) -> Tensor:
    """Integers in the order of the numbers; zeros of both signs are one."""
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    whole = x.contiguous().view(bits).long()
    magnitude = whole & torch.iinfo(bits).max
    return torch.where(whole < 0, -magnitude, magnitude)


def off(got: Tensor, want: Tensor, exact: Tensor, narrow: Tensor | None = None) -> Tensor:
    """Where `got` is wrong. `want`: eager's; `exact`: in f64; `narrow`: the same program in f32, where the dtype has fewer bits."""
    if not want.is_floating_point():
        return (got != want) & (got != exact.to(got.dtype))
    best, rounded = exact.double(), exact.to(want.dtype)
    found, eager = got.double(), want.double()
    near = steps_between(got, rounded) <= STEPS
    near |= (found - best).abs() <= _noise(eager, best, None if narrow is None else narrow.double(), want.dtype)
    number = found.isfinite()
    same = (found == eager) | (found == rounded.double())
    same |= found.isnan() & (eager.isnan() | best.isnan())
    return ~torch.where(number & best.isfinite(), near, same | (number & (found - eager).abs().le(_unit(eager, want))))


def _unit(eager: Tensor, want: Tensor) -> Tensor:
    """Of elements that are numbers in eager, and not in f64."""
    return STEPS * torch.finfo(want.dtype).eps * eager.abs().nan_to_num(0, 0, 0)


def _noise(eager: Tensor, best: Tensor, narrow: Tensor | None, dtype: torch.dtype) -> Tensor:
    errors = (eager - best).abs()
    if narrow is not None:
        scale = torch.finfo(dtype).eps / torch.finfo(torch.float32).eps
        errors = torch.maximum(errors, (narrow - best).abs() * scale)
    errors = errors.nan_to_num(0, 0, 0)
    times = NOISE_OF_F64 if dtype == torch.float64 else NOISE
    return times * torch.maximum(errors, errors.square().mean().sqrt()) if errors.numel() else errors


def distance(x: Tensor, want: Tensor) -> float:
    """From `want`, an f64 tensor, over its length; not over nothing."""
    return ((x.double() - want).norm() / (want.norm() + 1e-3 * max(1, want.numel()) ** 0.5)).item()


def differences(name: str, got: Tensor, want: Tensor, exact: Tensor, narrow: Tensor | None = None) -> Sequence[str]:
    """A line of what is wrong with `got`, if anything is."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return [f"{name}: {got.dtype} {[*got.shape]}, not {want.dtype} {[*want.shape]}"]
    wrong = off(got, want, exact, narrow)
    if wrong.any():
        place = tuple(wrong.nonzero()[0].tolist())
        return [
            f"{name}: {int(wrong.sum())} of {wrong.numel()} elements ({got.dtype}), at {place} {got[place].item()}, "
            f"eager {want[place].item()}, f64 {exact[place].item()}"
        ]
    numbers = exact.isfinite() if want.is_floating_point() else None
    if numbers is not None and numbers.all() and want.double().isfinite().all():
        ours, theirs = distance(got, exact.double()), distance(want, exact.double())
        if not ours <= max(3 * theirs, tolerance_of(want.dtype), STEPS * torch.finfo(want.dtype).eps):
            return [f"{name} ({got.dtype}): {ours:.2e} from f64, eager {theirs:.2e}"]
    return []
