"""Which values a training step saves and which it computes again, as an integer program: the least time with no more bytes than allowed.

A value that the backward reads is saved or computed again, and what is computed again has operands for which the same holds (as in Jain et al.,
"Checkmate", with one stage for all of the backward: each value is computed again once at the most). Solved by HiGHS, within a time limit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch.fx import Node

SECONDS = 5.0  # of the solver, at most
GAP = 0.005  # of the time that is lost, at most, where the solver stops before it has proven the least


@dataclass(frozen=True)
class Program:
    """`needed`: values that the backward reads; `values`: all that may be saved or computed again, operands first. `saving` and `again`: the time
    of each, None where it cannot be."""

    values: Sequence[Node]
    needed: frozenset[Node]
    operands: Callable[[Node], Sequence[Node]]
    saving: Callable[[Node], float | None]
    again: Callable[[Node], float | None]


@dataclass(frozen=True)
class Limit:
    """No more than `most` of the `bytes` that saved values have."""

    bytes: dict[Node, int]
    most: int


def saved(program: Program, limits: Sequence[Limit], seconds: float = SECONDS) -> list[Node] | None:
    """The values to save, in the order of `program.values`; None where no choice keeps the limits, or none was found in time."""
    import numpy
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    number = {node: i for i, node in enumerate(program.values)}
    count = len(number)
    cost, upper = numpy.zeros(2 * count), numpy.ones(2 * count)
    for node, i in number.items():
        for at, time in ((i, program.saving(node)), (count + i, program.again(node))):
            cost[at], upper[at] = (0.0, 0.0) if time is None else (time, 1.0)
    entries: list[tuple[int, int, float]] = []
    lower: list[float] = []
    for node in program.values:
        if node in program.needed:
            entries += [(len(lower), number[node], 1.0), (len(lower), count + number[node], 1.0)]
            lower.append(1.0)
        for operand in program.operands(node):
            row = len(lower)
            entries += [(row, number[operand], 1.0), (row, count + number[operand], 1.0), (row, count + number[node], -1.0)]
            lower.append(0.0)
    most = [numpy.inf] * len(lower)
    for limit in limits:
        scale = 1.0 / max(1, limit.most)  # numbers near 1, as solvers like them
        entries += [(len(lower), number[node], size * scale) for node, size in limit.bytes.items() if size and node in number]
        lower.append(-numpy.inf)
        most.append(limit.most * scale)
    rows, columns, values = zip(*entries) if entries else ((), (), ())
    matrix = coo_array((values, (rows, columns)), shape=(len(lower), 2 * count)).tocsr()
    scaled = cost / max(cost.max(initial=0.0), 1e-30)
    found = milp(
        scaled,
        constraints=LinearConstraint(matrix, lower, most),
        integrality=numpy.ones(2 * count),
        bounds=Bounds(0, upper),
        options={"time_limit": seconds, "mip_rel_gap": GAP},
    )
    return None if found.x is None else [node for node, i in number.items() if found.x[i] > 0.5]
