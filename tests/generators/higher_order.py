"""Random programs of higher-order operators in each other, with tensors that they capture, and gradients.

Either what they compute is compared with eager; or, in programs that only multiply their input by numbers that they draw, the gradient of the
sum has to be what the input was multiplied by in the same call.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

# What programs call, by these names.
from torch._higher_order_ops.map import map as map_over  # noqa: F401
from torch._higher_order_ops.scan import scan  # noqa: F401
from torch._higher_order_ops.while_loop import while_loop  # noqa: F401
from torch.compiler import nested_compile_region  # noqa: F401
from torch.nn import functional as F  # noqa: F401
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint  # noqa: F401

from tests.generators.elementwise import differences

# What saturates is given bounded numbers: 1 - tanh(x)**2 and y * (1 - y) are differences of nearly equal numbers elsewhere, and eager's own
# gradients are off as much (at 10 by 1e-9), though each tanh is right to a unit in the last place.
PURE = (
    "torch.sin({x})",
    "torch.tanh({x}.sin() * w)",
    "{x} + {x}.mean()",
    "{x} * w + 0.5",
    "torch.sigmoid({x}.cos()) - w",
    "{x}.abs() + 1",
)
DRAWING = ("F.dropout({x}, 0.5)", "{x} * torch.rand_like({x})", "{x} * 3", "F.dropout({x}, 0.2) * 2")
# {a} and {b} are functions of one tensor; the second of a pair says whether they are given rows of what the operator is given.
OPERATORS = {
    "cond": ("torch.cond({x}.sum() > {number}, {a}, {b}, ({x},))", False),
    "switch": ("switch(({x}.sum() > {number}).long(), ({a}, {b}, torch.sin), ({x},))", False),
    "while_loop": ("while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, {a}(x)), (torch.tensor(0), {x}))[1]", False),
    "map": ("map_over({a}, {x})", True),
    "scan": ("scan(lambda c, x: (c * 0.5 + 1, {a}(x) * 2), torch.zeros((), dtype=x.dtype), {x})[1]", True),
    "region": ("{a}({x}, w)", False),
    "checkpoint": ("checkpoint({a}, {x}, use_reentrant=False)", False),
    "flex_attention": ("flex({x}, w)", False),
}
if not hasattr(torch.ops.higher_order, "switch"):  # as of PyTorch 2.14
    del OPERATORS["switch"]
else:
    from torch._higher_order_ops.switch import switch  # noqa: F401
LEAVES = ("checkpoint", "flex_attention")  # in which PyTorch takes no other operator, or which take no function


def flex(x: Tensor, w: Tensor) -> Tensor:
    heads = x.reshape(1, 1, x.shape[0], -1)
    return flex_attention(heads, heads * 0.5, heads.sin(), lambda score, *_: score * w).reshape(x.shape)


@dataclass(frozen=True)
class Step:
    """Something done to `x`: a text, or an operator with what its functions do. `{x}` stands for the tensor."""

    text: str
    bodies: tuple[tuple["Step", ...], ...] = ()

    def lines(self, names: Iterator[int], indent: str, regions: list[str]) -> list[str]:
        """Regions, which nothing may be inside of, are added to `regions`."""
        made, given = [], {}
        region = self.text == OPERATORS["region"][0]
        for letter, body in zip("ab", self.bodies):
            given[letter] = f"f{next(names)}"
            outer = "" if region else indent
            inner = [line for step in body for line in step.lines(names, outer + "    ", regions)]
            head = f"{outer}def {given[letter]}(x{', w' * region}):"
            text = [head, *inner, f"{outer}    return x"]
            if region:
                regions += ["@nested_compile_region", *text, "", ""]
            else:
                made += text
        return [*made, f"{indent}x = {self.text.format(x='x', **given)}"]


@dataclass(frozen=True)
class Nested:
    steps: tuple[Step, ...]
    drawing: bool
    dynamic: bool
    differentiated: bool
    seed: int

    def program(self) -> str:
        names = iter(range(1 << 30))
        regions: list[str] = []
        lines = [line for step in self.steps for line in step.lines(names, "    ", regions)]
        return "\n".join([*regions, "def program(x, w):", *lines, "    return x", ""])

    def function(self) -> Callable[[Tensor, Tensor], Tensor]:
        names = {name: value for name, value in globals().items() if not name.startswith("__")}  # of no module
        exec(compile(self.program(), "<program>", "exec"), names)
        return names["program"]

    def inputs(self, rows: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(self.seed + rows)
        x = torch.rand((rows, 4), generator=generator, dtype=torch.float64) + 0.5
        w = torch.randn((), generator=generator, dtype=torch.float64)
        return [given.requires_grad_(self.differentiated) for given in (x, w)]

    def differences(self, backend: str) -> list[str]:
        torch._dynamo.reset()
        options = {"on_error": "raise"} if backend == "bascule" else None
        compiled = torch.compile(
            self.function(), backend=backend, dynamic=self.dynamic, options=options, fullgraph=True
        )
        rows = (3, 5) if self.dynamic else (3,)
        compare = self._drawn if self.drawing else self._computed
        return [f"{n} rows: {text}" for n in rows for text in compare(compiled, n)]

    def _computed(self, compiled: Callable[..., Tensor], rows: int) -> list[str]:
        got, want = (
            [call(*given), given] for call, given in ((f, self.inputs(rows)) for f in (compiled, self.function()))
        )
        found = differences("result", got[0].detach(), want[0].detach(), ulps=1 << 16, sums=1 << 20)
        if not self.differentiated:
            return found
        for result, _ in (got, want):
            result.sin().sum().backward()
        for name, a, b in zip("xw", got[1], want[1]):
            if (a.grad is None) != (b.grad is None):
                found.append(f"gradient of {name}: {a.grad}, not {b.grad}")
            elif b.grad is not None:
                found += differences(f"gradient of {name}", a.grad, b.grad, ulps=1 << 20, sums=1 << 30)
        return found

    def _drawn(self, compiled: Callable[..., Tensor], rows: int) -> list[str]:
        x, w = self.inputs(rows)
        y = compiled(x, w)
        y.sum().backward()
        return differences("gradient", x.grad, (y / x).detach(), ulps=4096, zero_signs=False)

    def smaller(self) -> Iterator["Nested"]:
        yield from (replace(self, steps=steps) for steps in _smaller(self.steps))
        if self.dynamic:
            yield replace(self, dynamic=False)
        if self.differentiated and not self.drawing:
            yield replace(self, differentiated=False)

    def source(self) -> str:
        flags = (
            f"drawing={self.drawing}, dynamic={self.dynamic}, differentiated={self.differentiated}, seed={self.seed}"
        )
        return f"# {flags}\nfrom tests.generators.higher_order import *\n\n\n{self.program()}"


def _smaller(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """With a step less, one of the functions of an operator in its place, or a smaller one."""
    for number, step in enumerate(steps):
        before, after = steps[:number], steps[number + 1 :]
        if len(steps) > 1:
            yield before + after
        for place, body in enumerate(step.bodies):
            yield before + body + after
            for less in _smaller(body):
                yield (*before, replace(step, bodies=(*step.bodies[:place], less, *step.bodies[place + 1 :])), *after)


def _steps(random: Random, depth: int, rank: int, drawing: bool, differentiated: bool) -> tuple[Step, ...]:
    simple = [Step(random.choice(DRAWING if drawing else PURE)) for _ in range(random.randrange(1, 3))]
    return (*simple, _operator(random, depth, rank, drawing, differentiated), simple[0]) if depth else tuple(simple)


def _operator(random: Random, depth: int, rank: int, drawing: bool, differentiated: bool) -> Step:
    """An operator whose functions are at most `depth - 1` deep, of a tensor of `rank`."""
    known = {name for name, (_, by_rows) in OPERATORS.items() if rank > by_rows}
    if rank < 2:  # PyTorch takes neither regions nor gradients of loops in each row
        known -= {"region", "map", "scan", "flex_attention", *(["while_loop"] if differentiated else [])}
    if differentiated:  # of this there are none on a CPU
        known -= {"flex_attention"}
    name = random.choice(sorted(known))
    text, by_rows = OPERATORS[name]
    inner = 0 if name in LEAVES else random.randrange(depth)
    count = ("{a}" in text) + ("{b}" in text)
    bodies = tuple(_steps(random, inner, rank - by_rows, drawing, differentiated) for _ in range(count))
    return Step(text.replace("{number}", str(random.choice([-100, 2, 100]))), bodies)


def draw(random: Random) -> Nested:
    drawing = random.random() < 0.3
    differentiated = drawing or random.random() < 0.7
    return Nested(
        steps=_steps(random, random.choice([1, 2, 2, 3]), 2, drawing, differentiated),
        drawing=drawing,
        dynamic=random.random() < 0.3,
        differentiated=differentiated,
        seed=random.randrange(1 << 30),
    )
