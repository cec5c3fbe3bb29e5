"""Reads and writes at indices that are constants, counted, computed of sizes or read, in range and beyond it: refused where eager refuses them.

What a compiler knows of an index decides how it is checked; whether it is checked may not depend on that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

from tests.generators.elementwise import differences

ROWS, COLUMNS = 5, 3
# An index of `n` elements around `at`, beside `x` of `ROWS` rows and `i`, which is `at` in memory.
INDICES = (
    "torch.full(({n},), {at})",
    "torch.arange({n}) + {at}",
    "torch.zeros({n}, dtype=torch.int64) + {at}",
    "torch.ones({n}, dtype=torch.int64) * {at}",
    "i.expand({n})",
    "i.repeat({n})",
    "i + torch.zeros({n}, dtype=torch.int64)",
    "torch.full(({n},), {at}) + i - {at}",
    "torch.full(({n},), x.shape[0] + {at} - 5)",
    "torch.tensor([{at}] * {n})",
    "torch.full((2 * {n},), {at})[:{n}]",
    "torch.where(x[:{n}, 0] == x[:{n}, 0], {at}, 0)",
)
USES = (
    "x[k]",
    "x[k, k]",
    "x.index_select(0, k)",
    "x.gather(0, k[:, None])",
    "x.gather(1, k[:, None])",
    "x.take(k)",
    "x.t()[:, k]",
    "x.scatter(0, k[:, None], 7.0)",
    "x.scatter(0, k[:, None], x * 2)",
    "x.scatter_add(0, k[:, None], x)",
    "x.scatter_reduce(0, k[:, None], x, 'amax')",
    "x.index_add(0, k, x[: k.shape[0]])",
    "x.index_copy(0, k, x[: k.shape[0]])",
    "x.index_put((k,), x[: k.shape[0]], accumulate=True)",
    "x.index_put((k,), x[0])",
    "torch.nn.functional.embedding(k, x)",
    "torch.nn.functional.nll_loss(x[: k.shape[0]], k)",
    "torch.nn.functional.cross_entropy(x[: k.shape[0]], k)",
)
SETS = ("index_copy", "index_put((k,), x[0])", "x.scatter(0")  # of one place twice, either is right


@dataclass(frozen=True)
class Indexed:
    """`use` of `x` at `index`, which is `count` numbers about `at`."""

    use: str
    index: str
    count: int
    at: int
    dynamic: bool
    target: str

    def program(self) -> str:
        return f"def program(x, i):\n    k = {self.index.format(n=self.count, at=self.at)}\n    return {self.use} * 2\n"

    def source(self) -> str:
        return f"# {self.program()!r}\nfrom tests.generators.indices import Indexed\n\nprint({self!r}.differences('bascule'))\n"

    def function(self) -> Callable[[Tensor, Tensor], Tensor]:
        names = {"torch": torch}
        exec(compile(self.program(), "<program>", "exec"), names)
        return names["program"]

    def differences(self, backend: str) -> list[str]:
        torch._dynamo.reset()
        x, i = torch.arange(float(ROWS * COLUMNS)).view(ROWS, COLUMNS).sin(), torch.tensor([self.at])
        want = _result(self.function(), x, i)
        options = {"target": self.target, "on_error": "raise"} if backend == "bascule" else None
        got = _result(torch.compile(self.function(), backend=backend, options=options, dynamic=self.dynamic), x, i)
        if isinstance(want, str) or isinstance(got, str):
            return [] if isinstance(want, str) and isinstance(got, str) else [f"{got}, not {want}"]
        return differences("result", got, want, ulps=8, zero_signs=False)

    def smaller(self) -> Iterator["Indexed"]:
        if self.dynamic:
            yield replace(self, dynamic=False)
        if self.count > 1:
            yield replace(self, count=1)
        if self.index != INDICES[0]:
            yield replace(self, index=INDICES[0])


def _result(function: Callable, x: Tensor, i: Tensor) -> Tensor | str:
    """The result, or the refusal."""
    try:
        return function(x.clone(), i.clone())
    except Exception as error:  # each operator has its own, and the interpreter one for all
        return f"{type(error).__name__}: {error}".splitlines()[0]


def draw(random: Random) -> Indexed:
    use = random.choice(USES)
    return Indexed(
        use=use,
        index=random.choice(INDICES),
        count=1 if any(name in use for name in SETS) else random.choice([1, 2, 3]),
        at=random.choice([0, 1, 2, 2, 4, 5, 9, -1, -5, -6, 99]),
        dynamic=random.random() < 0.5,
        target=random.choice(["cpu", "interpret", "interpret"]),
    )
