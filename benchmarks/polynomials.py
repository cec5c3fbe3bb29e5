"""Fits the polynomials of exp, erf and tanh again, and compares those that are stored in `lowering` with them.

    python -m benchmarks.polynomials

A fit is Lawson's: weighted least squares on Chebyshev points, in f64, whose weights grow where the error is large. Kernels have coefficients
in f32, so that stored ones are rounded to it, whatever their digits. A stored set passes if its largest error, of results computed in f64, is at
most 1.05 times the fit's plus the most that rounding the coefficients can add; the exit status is 1 if one does not.
"""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from bascule.lowering.cpu.functions import polynomials, table_functions
from bascule.lowering.triton.values import approximations
from torch import Tensor
from torch.special import erfc

from .measure import print_table

Function = Callable[[Tensor], Tensor]
MARGIN = 1.05
POINTS, TEST_POINTS = 500, 5001  # of a fit, of the measured error
STEPS, CLOSE = 1000, 1.002  # least squares, at most; how near to the least possible error they end


def chebyshev_points(low: float, high: float, count: int) -> Tensor:
    """In f64; dense at the ends, which are not among them."""
    angles = (torch.arange(count, dtype=torch.float64) + 0.5) * (math.pi / count)
    return (low + high) / 2 - (high - low) / 2 * angles.cos()


@contextmanager
def one_thread() -> Iterator[None]:
    """The problems are so small that threads wait for each other longer than they work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def lawson(columns: Tensor, target: Tensor) -> Tensor:
    """The coefficients whose largest |columns @ coefficients - target| is least."""
    weights = torch.full_like(target, 1 / len(target))
    least, bound = math.inf, 0.0
    for _ in range(STEPS):
        root = weights.sqrt()
        found = torch.linalg.lstsq(columns * root[:, None], (target * root)[:, None]).solution[:, 0]
        errors = (columns @ found - target).abs()
        # No coefficients have a smaller mean square, thus none a smaller largest error.
        bound = max(bound, (weights @ errors.square()).sqrt().item())
        if errors.max().item() < least:
            best, least = found, errors.max().item()
        if least <= CLOSE * bound:
            return best
        weights = weights * errors
        weights = weights / weights.sum()
    raise ArithmeticError(f"no fit in {STEPS} steps: {least} is not close to {bound}")


def powers(u: Tensor, degree: int) -> Tensor:
    """A column for each power, the highest first."""
    return u[:, None] ** torch.arange(degree, -1, -1)


def rounded(coefficients: Tensor) -> Tensor:
    return coefficients.float().double()


def half_units(coefficients: Tensor) -> Tensor:
    """By how much rounding to f32 changes each coefficient at most."""
    return torch.ldexp(torch.ones_like(coefficients), coefficients.frexp().exponent - 25)


@dataclass(frozen=True)
class Fit:
    """A polynomial p(u), u the `variable` at x, `low` < x < `high`, with which `result(x, p)` is about `exact(x)`."""

    name: str
    low: float
    high: float
    stored: tuple[float, ...]  # the highest power first
    exact: Function
    wanted: Function  # the p of which the result is exact
    result: Callable[[Tensor, Tensor], Tensor] = lambda x, p: p
    variable: Function = lambda x: x
    fixed: tuple[float, ...] = ()  # the last coefficients, of the lowest powers: they are not fitted
    size: Function | None = None  # what errors are relative to, where it is not `exact`
    constant_first: bool = False  # in the module

    def slope(self, x: Tensor) -> Tensor:
        """The relative error of the result by the error of p."""
        p = self.wanted(x).requires_grad_()
        (slope,) = torch.autograd.grad(self.result(x, p).sum(), p)
        return slope.abs() / self.relative_to(x)

    def relative_to(self, x: Tensor) -> Tensor:
        return (self.size or self.exact)(x).abs()

    def columns(self, x: Tensor) -> Tensor:
        return powers(self.variable(x), len(self.stored) - 1)

    @property
    def free(self) -> int:
        return len(self.stored) - len(self.fixed)

    def fitted(self) -> Tensor:
        """Coefficients in f64. Where `wanted` cancels, near 0, the slope takes its rounding errors down to those of the result."""
        x = chebyshev_points(self.low, self.high, POINTS)
        slope, columns = self.slope(x), self.columns(x)
        fixed = torch.tensor(self.fixed, dtype=torch.float64)
        rest = self.wanted(x) - columns[:, self.free :] @ fixed
        return torch.cat([lawson(columns[:, : self.free] * slope[:, None], rest * slope), fixed])

    def error(self, coefficients: Tensor) -> float:
        """The largest relative error of the result."""
        x = chebyshev_points(self.low, self.high, TEST_POINTS)
        result = self.result(x, self.columns(x) @ coefficients)
        return ((result - self.exact(x)).abs() / self.relative_to(x)).max().item()

    def rounding(self, coefficients: Tensor) -> float:
        """The largest relative error that rounding of fitted coefficients to f32 adds."""
        x = chebyshev_points(self.low, self.high, TEST_POINTS)
        errors = self.columns(x)[:, : self.free].abs() @ half_units(coefficients[: self.free])
        return (errors * self.slope(x)).max().item()


@dataclass(frozen=True)
class Comparison:
    """A fresh fit, and errors: of it, of it in f32, of what is stored, and the most that the last may be."""

    fit: Fit
    coefficients: Tensor
    fitted: float
    rounded: float
    stored: float
    limit: float

    @staticmethod
    def of(fit: Fit) -> "Comparison":
        fresh = fit.fitted()
        fitted, stored = fit.error(fresh), rounded(torch.tensor(fit.stored, dtype=torch.float64))
        limit = MARGIN * fitted + fit.rounding(fresh)
        return Comparison(fit, fresh, fitted, fit.error(rounded(fresh)), fit.error(stored), limit)

    @property
    def passes(self) -> bool:
        return self.stored <= self.limit

    def row(self) -> list[str]:
        errors = (self.fitted, self.rounded, self.stored, self.limit)
        return [self.fit.name, *(f"{error:.3e}" for error in errors), "yes" if self.passes else "NO"]

    def line(self) -> str:
        """The coefficients in f32, in the order in which the module has them."""
        numbers = rounded(self.coefficients).tolist()
        return f"{self.fit.name} = {tuple(numbers[::-1] if self.fit.constant_first else numbers)}"


def square(x: Tensor) -> Tensor:
    return x * x


def rest_of_erf(x: Tensor) -> Tensor:
    return torch.minimum(torch.erf(x), erfc(x))


CPU = (
    Fit(
        "polynomials.EXP",
        *(-math.log(2) / 2, math.log(2) / 2),
        stored=polynomials.EXP,
        exact=torch.exp,
        wanted=torch.exp,
        fixed=(1.0, 1.0),
    ),
    Fit(
        "polynomials.TANH",
        *(0.0, polynomials.TANH_SMALL),
        stored=polynomials.TANH,
        exact=torch.tanh,
        wanted=lambda x: (x.tanh() - x) / x**3,
        result=lambda x, p: x + x**3 * p,
        variable=square,
    ),
    Fit(
        "polynomials.ERF",
        *(0.0, polynomials.ERF_SMALL),
        stored=polynomials.ERF,
        exact=torch.erf,
        wanted=lambda x: x.erf() / x - 1,
        result=lambda x, p: x + x * p,
        variable=square,
    ),
    # 1 - erf(x), of which less is rounded away, with the error relative to erf(x).
    Fit(
        "polynomials.ERF_TAIL",
        *(polynomials.ERF_SMALL, polynomials.ERF_ONE),
        stored=polynomials.ERF_TAIL,
        exact=erfc,
        wanted=lambda x: -erfc(x).log() / x - 1,
        result=lambda x, p: (-(x + x * p)).exp(),
        size=torch.erf,
    ),
)


def table_entry(k: int) -> Fit:
    """erf(x) in r = 4 x - k; in the first interval x is added to the polynomial."""

    def erf(r: Tensor) -> Tensor:
        return ((r + k) / table_functions.STEPS).erf()

    def added(r: Tensor) -> Tensor:
        return r / table_functions.STEPS if k == 0 else torch.zeros_like(r)

    return Fit(
        f"table_functions.ERF, interval {k}",
        *(0.0, 1.0),
        stored=tuple(entries[k] for entries in table_functions.ERF),
        exact=erf,
        wanted=lambda r: erf(r) - added(r),
        result=lambda r, p: added(r) + p,
        fixed=(torch.tensor(math.erf(k / table_functions.STEPS)).item(),),
    )


TRITON = (
    Fit(
        "approximations.ERF_NEAR",
        *(0.0, approximations.ERF_BOUND),
        stored=approximations.ERF_NEAR[::-1],
        exact=torch.erf,
        wanted=lambda x: x.erf() / x,
        result=lambda x, p: x * p,
        variable=square,
        constant_first=True,
    ),
    # Both erf and 1 - erf are read, the second by a gelu: the larger of the two relative errors.
    Fit(
        "approximations.ERF_FAR",
        *(approximations.ERF_BOUND, approximations.ERF_LAST),
        stored=approximations.ERF_FAR[::-1],
        exact=erfc,
        wanted=lambda x: -erfc(x).log2() / x,
        result=lambda x, p: (-x * p).exp2(),
        size=rest_of_erf,
        constant_first=True,
    ),
    Fit(
        "approximations.ERFC",
        *(0.0, approximations.ERF_LAST),
        stored=approximations.ERFC[::-1],
        exact=erfc,
        wanted=lambda x: -erfc(x).log2() / x,
        result=lambda x, p: (-x * p).exp2(),
        constant_first=True,
    ),
    Fit(
        "approximations.TANH_NEAR",
        *(0.0, approximations.TANH_BOUND),
        stored=approximations.TANH_NEAR[::-1],
        exact=torch.tanh,
        wanted=lambda x: x.tanh() / x,
        result=lambda x, p: x * p,
        variable=square,
        fixed=(1.0,),
        constant_first=True,
    ),
)
FITS = (*CPU, *map(table_entry, range(table_functions.LANES)), *TRITON)


@one_thread()
def main() -> None:
    compared = [Comparison.of(fit) for fit in FITS]
    header = ["polynomial", "fitted", "fitted, in f32", "stored", "at most", "stored is as good"]
    print_table(header, [each.row() for each in compared])
    print()
    for each in compared:
        print(each.line())
    worse = [each for each in compared if not each.passes]
    if worse:
        sys.exit("worse than a fresh fit: " + ", ".join(each.fit.name for each in worse))


if __name__ == "__main__":
    main()
