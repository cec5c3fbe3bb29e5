"""The combining functions of `bascule.reduce` and `bascule.scan`, one a kind.

Floats are summed in f64 and rounded once, so that the result is a reference whatever order a kernel takes; in stochastic precision each
partial result is rounded.
"""

from collections.abc import Callable

import torch

from .integers import wrap
from .numerics.precision import is_stochastic, nudged, rounded, roundings

Reduction = Callable[[torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]  # over axis 0


def _exact(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.is_floating_point() else x.to(torch.int64)


def _rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return rounded(x, dtype) if dtype.is_floating_point else wrap(x, dtype)


def _sums(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The partial sums."""
    partial = torch.cumsum(_exact(x), dim)
    if is_stochastic() and x.is_floating_point():
        partial = partial + torch.cumsum(roundings(partial, x.dtype), dim)
    return _rounded(partial, x.dtype)


def _products(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The partial products, each with the relative errors of those before it."""
    partial = torch.cumprod(_exact(x), dim)
    if is_stochastic() and x.is_floating_point():
        one = rounded(partial, x.dtype).double() / partial - 1
        partial = partial * (1 + torch.cumsum(torch.nan_to_num(one, nan=0.0, posinf=0.0, neginf=0.0), dim))
    return _rounded(partial, x.dtype)


def _sum(x: torch.Tensor) -> torch.Tensor:
    if is_stochastic() and x.is_floating_point() and x.shape[0]:
        partial = torch.cumsum(_exact(x), 0)
        return rounded(partial[-1] + roundings(partial, x.dtype).sum(0), x.dtype)
    return _rounded(_exact(x).sum(0), x.dtype)


def _product(x: torch.Tensor) -> torch.Tensor:
    if is_stochastic() and x.is_floating_point() and x.shape[0]:
        return _products(x, 0)[-1]
    return _rounded(_exact(x).prod(0), x.dtype)


def flip(x: torch.Tensor) -> torch.Tensor:
    """Unsigned order as signed order, and back: the top bit is flipped."""
    return ~x if x.dtype == torch.bool else x ^ torch.iinfo(x.dtype).min


def _extreme(x: torch.Tensor, largest: bool) -> torch.Tensor:
    if x.dtype == torch.bool:  # signed: true is -1
        return ~_extreme((~x).to(torch.int8), largest).bool()
    if x.shape[0] == 0:
        limit = torch.inf if x.is_floating_point() else torch.iinfo(x.dtype).max
        worst = (-limit if x.is_floating_point() else torch.iinfo(x.dtype).min) if largest else limit
        return torch.full(x.shape[1:], worst, dtype=x.dtype)
    return torch.amax(x, 0) if largest else torch.amin(x, 0)


def _position(x: torch.Tensor, largest: bool) -> torch.Tensor:
    """The first position of the best value; NaN is the best of all. Of no values there is none, and so there must be no points either."""
    if x.shape[0] == 0:
        return x.new_zeros(x.shape[1:], dtype=torch.int64)
    if x.dtype == torch.bool:
        x = (~x).to(torch.int8)
    best = _extreme(x, largest)
    hit = (x == best) | (torch.isnan(x) & torch.isnan(best)) if x.is_floating_point() else x == best
    return torch.argmax(hit.to(torch.int8), 0)


def _welford(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wide, count = x.double(), x.shape[0]
    if is_stochastic():
        mean = rounded(_sum(x).double() / max(count, 1), x.dtype)
        return mean, _sum(rounded((wide - mean.double()).square(), x.dtype)), torch.full_like(mean, count)
    mean = wide.mean(0) if count else wide.sum(0)
    squares = (wide - mean).square().sum(0)
    return mean.to(x.dtype), squares.to(x.dtype), torch.full(mean.shape, count, dtype=x.dtype)


def _softmax(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    largest = _extreme(x, True)
    powers = torch.exp(x.double() - largest.double())
    return largest, _sum(rounded(powers, x.dtype)) if is_stochastic() else powers.sum(0).to(x.dtype)


def _xor(x: torch.Tensor) -> torch.Tensor:
    result = torch.zeros(x.shape[1:], dtype=x.dtype)
    for row in x:
        result = result ^ row
    return result


REDUCTIONS: dict[str, Reduction] = {
    "sum": _sum,
    "prod": _product,
    "max": lambda x: _extreme(x, True),
    "min": lambda x: _extreme(x, False),
    "maxu": lambda x: flip(_extreme(flip(x), True)),
    "minu": lambda x: flip(_extreme(flip(x), False)),
    "any": lambda x: x.any(0),
    "all": lambda x: x.all(0),
    "xor": _xor,
    "argmax": lambda x: _position(x, True),
    "argmin": lambda x: _position(x, False),
    "welford": _welford,
    "softmax": _softmax,
}

# Positions of a scan are those of the last of equal values, as in `torch.cummax`.
SCANS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "sum": _sums,
    "prod": _products,
    "max": lambda x, dim: torch.cummax(x, dim).values,
    "min": lambda x, dim: torch.cummin(x, dim).values,
    "maxu": lambda x, dim: flip(torch.cummax(flip(x), dim).values),
    "minu": lambda x, dim: flip(torch.cummin(flip(x), dim).values),
    "logaddexp": lambda x, dim: rounded(torch.logcumsumexp(x.double(), dim), x.dtype),
    "argmax": lambda x, dim: torch.cummax(x, dim).indices,
    "argmin": lambda x, dim: torch.cummin(x, dim).indices,
}


def combine(mode: str, elements: torch.Tensor, at: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """`elements` (one axis) after `values` were stored at the positions `at`, in order, by the store mode `mode`."""
    if mode == "set":
        order = torch.arange(len(at))
        last = torch.full((len(elements),), -1).scatter_reduce(0, at, order, "amax")
        winner = last[at] == order
        result = elements.clone()
        result[at[winner]] = values[winner]
        return result
    if mode in ("minu", "maxu"):
        return flip(combine(mode[:3], flip(elements), at, flip(values)))
    if elements.dtype == torch.bool:  # one bit: signed order, wrapping sums
        result = combine(mode, -elements.to(torch.int64), at, -values.to(torch.int64))
        return wrap(result, torch.bool)
    if is_stochastic() and mode in ("add", "mul"):
        values = nudged(values)
    wide, more = _exact(elements), _exact(values)
    if mode == "add":
        return _rounded(wide.index_put((at,), more, accumulate=True), elements.dtype)
    reduction = {"mul": "prod", "min": "amin", "max": "amax"}[mode]
    return _rounded(wide.scatter_reduce(0, at, more, reduction), elements.dtype)
