"""Whether two runs gave the same numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

# The largest relative error, absolute below 1, that another order of the same operations may make. Checks of other things have their own.
TOLERANCES = {
    torch.float64: 1e-10,
    torch.float32: 2e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
    torch.complex64: 2e-5,
    torch.complex128: 1e-10,
}
NARROW_FLOAT = 0.15  # f8


@dataclass(frozen=True)
class Comparison:
    """The outcome: the largest error seen, and a line for each result that differs by more than its tolerance."""

    max_error: float
    differences: tuple[str, ...]
    numbers: tuple[int, ...] = ()  # of the results that differ

    @property
    def match(self) -> bool:
        return not self.differences


def compare(
    expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor], tolerance: float | None = None
) -> Comparison:
    """Compares dtypes, sizes, integers and booleans exactly, floats by `TOLERANCES` (or `tolerance`); NaN equals NaN."""
    if len(expected) != len(actual):
        return Comparison(float("inf"), (f"{len(actual)} results for {len(expected)}",))
    worst, differences = 0.0, {}
    for number, (want, got) in enumerate(zip(expected, actual)):
        differ = shapes_differ(want, got)
        if differ:
            differences[number] = f"result {number}: {differ}"
            continue
        errors = relative_errors(want, got)
        if errors.numel() == 0:
            continue
        worst = max(worst, float(errors.max()))
        allowed = tolerance if tolerance is not None else tolerance_of(want.dtype)
        if float(errors.max()) > allowed:
            differences[number] = _describe(number, want, got, errors, allowed)
    return Comparison(worst, tuple(differences.values()), tuple(differences))


def shapes_differ(want: torch.Tensor, got: torch.Tensor) -> str:
    """Says where dtypes or sizes are not the same; empty where they are."""
    if want.dtype == got.dtype and want.shape == got.shape:
        return ""
    shapes = [f"{t.dtype}{list(t.shape)}".removeprefix("torch.") for t in (want, got)]
    return f"expected {shapes[0]}, got {shapes[1]}"


def tolerance_of(dtype: torch.dtype) -> float:
    """The relative error of a result that passes."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    return TOLERANCES.get(dtype, NARROW_FLOAT)


def relative_errors(want: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """The relative error of each element (absolute below 1); infinite where one is special and the other is not."""
    want, got = want.detach(), got.detach()
    if not (want.dtype.is_floating_point or want.dtype.is_complex):
        return torch.where(_integers(want) == _integers(got), 0.0, torch.inf)
    wide = torch.complex128 if want.dtype.is_complex else torch.float64
    want, got = want.to(wide), got.to(wide)
    errors = (want - got).abs() / want.abs().clamp(min=1)
    same = (want == got) | (torch.isnan(want) & torch.isnan(got))
    return torch.where(same, 0.0, torch.nan_to_num(errors, nan=torch.inf, posinf=torch.inf))


def _integers(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int64) if x.dtype == torch.uint64 else x.to(torch.int64)


def _describe(number: int, want: torch.Tensor, got: torch.Tensor, errors: torch.Tensor, allowed: float) -> str:
    index = [int(i) for i in torch.unravel_index(errors.argmax(), errors.shape)]
    bad = int((errors > allowed).sum())
    at = tuple(index)
    return (
        f"result {number}: {bad} of {errors.numel()} elements differ, most at {index}: "
        f"expected {want[at].item()}, got {got[at].item()}"
    )
