"""Operators of the user's that write to their arguments, among views and in-place operators on inputs that overlap themselves or each other.

The programs are those of `aliases`, with calls of these operators. What a view may take outside of its tensor is refused, which is counted;
any other refusal of what `aot_eager` runs is a finding.
"""

from random import Random
from typing import Any

import torch
from bascule.dialect.errors import UnsupportedError
from torch import Tensor

from tests.generators import aliases
from tests.generators.cases import refusals

OPERATORS = "torch.ops.bascule_generated."
DOCUMENTED = "outside of the tensor, in the rest of its storage"  # what the errors of documented refusals say


@torch.library.custom_op("bascule_generated::scale", mutates_args={"x"})
def scale(x: Tensor, factor: int) -> None:
    x.mul_(factor)


@torch.library.custom_op("bascule_generated::put", mutates_args={"x"})
def put(x: Tensor, y: Tensor) -> Tensor:
    x.copy_(y.amax())
    return y * 2


@torch.library.custom_op("bascule_generated::both", mutates_args={"x", "y"})
def both(x: Tensor, y: Tensor) -> None:
    x.add_(1)
    y.mul_(2)


@torch.library.custom_op("bascule_generated::each", mutates_args={"xs"})
def each(xs: list[Tensor], number: int) -> Tensor:
    for place, x in enumerate(xs):
        x.add_(number + place)
    return torch.stack([x.amax() for x in xs])


@torch.library.custom_op("bascule_generated::maybe", mutates_args={"out"})
def maybe(x: Tensor, out: Tensor | None) -> Tensor:
    if out is not None:
        out.fill_(x.amax())
    return x + 1


put.register_fake(lambda x, y: torch.empty_like(y))
each.register_fake(lambda xs, number: xs[0].new_empty(len(xs)))
maybe.register_fake(lambda x, out: torch.empty_like(x))

CALLS = (
    "scale({a}, 2)",
    "scale({a}[0], 3)",
    "scale({a}.t(), 2)",
    "put({a}, {b})",
    "put({a}[..., ::2], {b})",
    "both({a}, {b})",
    "each([{a}, {b}], 3)",
    "each([{a}], 1)",
    "maybe({a}, {b})",
    "maybe({b}, None)",
)
RESULTS = ("put({a}, {b})", "maybe({a}, {b})", "maybe({a}, None)", "each([{a}, {b}], 2)[1]")


class Program(aliases.Program):
    def differences(self, backend: str, **ours: Any) -> list[str]:
        try:
            return super().differences(backend, **ours)
        except UnsupportedError as error:
            if DOCUMENTED not in str(error):
                raise
            refusals[error.message] += 1
            return []


def draw(random: Random) -> Program:
    def step(a: str, b: str) -> tuple[str, bool]:
        kind = random.random()
        if kind < 0.55:
            text = OPERATORS + random.choice(CALLS) if kind < 0.4 else random.choice(aliases.WRITES)
        else:
            text = OPERATORS + random.choice(RESULTS) if kind < 0.65 else random.choice(aliases.VIEWS + aliases.NEW)
        return text.format(a=a, b=b), kind >= 0.55

    return aliases.draw_of_steps(Program, random, step)
