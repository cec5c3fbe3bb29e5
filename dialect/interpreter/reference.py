"""The results of a module in double precision, and how far from each element another run of the same computation may be.

How far is measured, element by element: the module runs a few times in the precision of its types, with roundings up or down at random
(`numerics/precision.py`). An element may be `FACTOR` times as far from double precision as the farthest of these runs, and a rounding of
its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..mlir import ir
from .entry import interpret
from .numerics.comparison import Comparison, relative_errors, shapes_differ
from .numerics.precision import DOUBLE, OWN, Precision, changed, widened
from .values import left_of

RUNS = 6  # with random roundings, besides the one that rounds to nearest
CLEAR = 1e-3  # the relative error of one element that is found, unless `unclear` tells otherwise
FACTOR = 6  # between the errors of two ways to compute the same: another order of additions, other approximations

Inputs = Sequence[torch.Tensor | int]


@dataclass(frozen=True)
class Reference:
    """`own`: the results in the precision of the IR's types. `precise`: in double. `allowed`: how far from that each element may be."""

    own: list[torch.Tensor]
    precise: list[torch.Tensor]
    allowed: list[torch.Tensor]

    def compare(self, actual: Sequence[torch.Tensor]) -> Comparison:
        """Whether `actual` has the dtypes and sizes of the results, and each element is as near to double precision as it may be."""
        if len(self.own) != len(actual):
            return Comparison(float("inf"), (f"{len(actual)} results for {len(self.own)}",))
        worst, differences = 0.0, {}
        for number, (own, precise, allowed, got) in enumerate(zip(self.own, self.precise, self.allowed, actual)):
            differ = shapes_differ(own, got)
            if differ:
                differences[number] = f"result {number}: {differ}"
                continue
            errors = distances(precise, got)
            if errors.numel() == 0:
                continue
            worst = max(worst, float(_relative(errors, precise).max()))
            if bool((errors > allowed).any()):
                differences[number] = _describe(number, precise, got, errors, allowed)
        return Comparison(worst, tuple(differences.values()), tuple(differences))

    def unclear(self) -> tuple[str, ...]:
        """A line for each result of 32 bits or more some of whose elements are too uncertain in its dtype to find an error of `CLEAR`."""
        lines = []
        for number, (own, precise, allowed) in enumerate(zip(self.own, self.precise, self.allowed)):
            if not own.is_floating_point() or own.dtype.itemsize < 4:
                continue
            count = int((allowed > CLEAR * precise.abs() + 2 * torch.finfo(own.dtype).tiny).sum())
            if count:
                name = str(own.dtype).removeprefix("torch.")
                lines.append(
                    f"result {number}: {count} of {own.numel()} elements are uncertain: {name} alone may change them by {CLEAR / FACTOR:.2%}"
                )
        return tuple(lines)

    def relaxed(self, factor: float) -> "Reference":
        """The reference by which each element may be `factor` times as far away."""
        return Reference(self.own, self.precise, [factor * allowed for allowed in self.allowed])

    def select(self, numbers: Sequence[int]) -> "Reference":
        """The reference of some of the results."""
        lists = ([kind[n] for n in numbers] for kind in (self.own, self.precise, self.allowed))
        return Reference(*lists)


def reference(module: ir.Module, inputs: Inputs, function: str | None = None) -> Reference:
    """Runs `function` of `module`; the results, and then the tensors among `inputs` as it leaves them. `inputs` stay as they are. Operators
    that draw random numbers draw the same in each run."""
    state = torch.get_rng_state()

    def run(precision: Precision) -> list[torch.Tensor]:
        torch.set_rng_state(state)
        given = [widened(value) if precision.double else _copied(value) for value in inputs]
        results = interpret(module, given, function, precision)
        return [left_of(value) for value in (*results, *given) if isinstance(value, torch.Tensor)]

    precise, own = run(DOUBLE), run(OWN)
    noise = [torch.zeros(x.shape, dtype=torch.float64) for x in precise]
    for others in (own, *(run(Precision(seed=seed)) for seed in range(1, RUNS + 1))):
        noise = [torch.maximum(most, distances(x, other)) for most, x, other in zip(noise, precise, others)]
    allowed = [FACTOR * most + _rounding(x, y.dtype) for most, x, y in zip(noise, precise, own)]
    return Reference(own, precise, allowed)


def distances(precise: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """How far each element is; infinitely where one is special, an integer or a boolean, and the other is not the same."""
    if not (precise.is_floating_point() or precise.is_complex()):
        return relative_errors(precise, got).double()
    got = got.to(precise.dtype)
    errors = (precise - got).abs()
    if torch.isfinite(errors.sum()):  # nothing is special
        return errors
    same = precise == got
    errors = torch.nan_to_num(errors, nan=torch.inf, posinf=torch.inf)
    return torch.where(same | (torch.isnan(precise) & torch.isnan(got)), 0.0, errors)


def _rounding(precise: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A rounding to `dtype` of each element, or, near zero, of its smallest normal number."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.zeros(precise.shape, dtype=torch.float64)
    facts = torch.finfo(dtype)
    return torch.nan_to_num(precise.abs() * facts.eps, nan=0.0, posinf=0.0) + facts.tiny


def _relative(errors: torch.Tensor, precise: torch.Tensor) -> torch.Tensor:
    """Of each element its error, absolute below 1."""
    if not (precise.is_floating_point() or precise.is_complex()):
        return errors
    return torch.nan_to_num(errors / precise.abs().clamp(min=1), nan=torch.inf, posinf=torch.inf)


def _copied(value: torch.Tensor | int) -> torch.Tensor | int:
    return changed(value, lambda x: x) if isinstance(value, torch.Tensor) else value


def _describe(
    number: int, precise: torch.Tensor, got: torch.Tensor, errors: torch.Tensor, allowed: torch.Tensor
) -> str:
    excess = torch.where(errors > allowed, _relative(errors, precise), -1.0)
    index = tuple(int(i) for i in torch.unravel_index(excess.argmax(), excess.shape))
    text = (
        f"result {number}: {int((errors > allowed).sum())} of {errors.numel()} elements differ, most at {list(index)}: "
        f"expected {precise[index].item()}, got {got[index].item()}"
    )
    if not precise.is_floating_point() or not torch.isfinite(errors[index]):
        return text
    return f"{text}; {errors[index].item():.1e} away, {allowed[index].item():.1e} may be"
