"""Differences between tensors, element by element, in units in the last place.

Programs that only round each element need to agree much better than `bascule.dialect.interpreter.compare` asks, which lets other orders of
additions pass; and they compare the signs of zeros, of which that knows nothing.
"""

import torch
from torch import Tensor


def differences(
    name: str,
    got: Tensor,
    want: Tensor,
    best: Tensor | None = None,
    *,
    ulps: float = 4,
    sums: int = 1,
    largest: float | None = None,
    terms: float = 0.0,
    zero_signs: bool = True,
) -> list[str]:
    """Compares `got` with eager's `want`; returns at most one line.

    `best` is the result in f64. An element may be off by `ulps` units in the last place of its dtype, and by four times what eager's own is
    off; `sums` is how many terms of the magnitude `largest`, or the tensor's largest, an element may be a sum of: their roundings are allowed
    for. `terms` is the magnitude of what each element by itself is a difference of, where less may be left.
    Whole numbers, booleans, NaN and infinities are the same, and so is the sign of an exact zero, if `zero_signs`.
    """
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return [f"{name}: {got.dtype} {[*got.shape]}, not {want.dtype} {[*want.shape]}"]
    if got.is_complex():
        parts = [torch.view_as_real(x.resolve_conj()) for x in (got, want)]
        return differences(
            name,
            *parts,
            None if best is None else torch.view_as_real(best),
            ulps=ulps,
            sums=sums,
            largest=largest,
            terms=terms,
            zero_signs=zero_signs,
        )
    wrong = _wrong(got.detach().cpu(), want.detach().cpu(), best, ulps, sums, largest, terms, zero_signs)
    if not wrong.any():
        return []
    places = wrong.nonzero()
    place = tuple(places[0].tolist())
    return [
        f"{name}: {len(places)} of {want.numel()} elements ({got.dtype}), at {place} {got[place].item()!r}, not {want[place].item()!r}"
    ]


def _wrong(
    got: Tensor,
    want: Tensor,
    best: Tensor | None,
    ulps: float,
    sums: int,
    largest: float | None,
    terms: float,
    zero_signs: bool,
) -> Tensor:
    if not want.is_floating_point():
        return got != want
    dtype = want.dtype
    got, want = got.double(), want.double()
    exact = want if best is None else best.double()
    finite = want.isfinite()
    eps, tiny = torch.finfo(dtype).eps, torch.finfo(dtype).smallest_normal
    unit = eps * exact.abs().nan_to_num(0).clamp(min=tiny)
    own = want[finite].abs().max().item() if finite.any() else 0.0
    allowed = ulps * unit + 4 * (want - exact).abs().nan_to_num(0, 0, 0) + eps * terms
    if sums > 1:
        allowed = allowed + eps * sums**0.5 * max(own, largest or 0.0)
    off = (got - exact).abs() > allowed
    same = torch.where(want.isnan(), got.isnan(), got == want)
    negative_zero = zero_signs & (want == 0) & (got == 0) & (exact == 0) & (got.signbit() != want.signbit())
    if best is not None:
        negative_zero &= got.signbit() != exact.signbit()  # in f64 less underflows on the way
    wrong = torch.where(finite, off | ~got.isfinite() | negative_zero, ~same)
    if best is None:
        return wrong
    # Where eager overflows, or rounds, on the way to what is no number in f64, or the other way round, the result may be that of f64.
    rounded = exact.to(dtype).double()
    right = torch.where(rounded.isfinite(), (got - exact).abs() <= ulps * unit, got == rounded)
    right |= got.isnan() & rounded.isnan()
    return wrong & ~(right & ~(finite & rounded.isfinite()))
