"""Triton's analysis holds nothing of integer tiles that is not true of their elements: of any index arithmetic, as it is spelled."""

import random

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.lowering.triton.interpreter.machine import Machine
from bascule.lowering.triton.interpreter.operations import RULES
from bascule.lowering.triton.values.axis_info import TOO_MUCH, Axes, AxisInfo
from bascule.lowering.triton.values.builder import Builder
from bascule.lowering.triton.values.tiles import Axis, Tile, elementwise, shaped

ROWS, KEYS = Axis(0, 32), Axis(1, 16)
NUMBERS = [1, 2, 3, 5, 8, 12, 16, 24, 48, 64, 200, 512, -8, -1]
NAMES = ["addi", "subi", "muli", "divui", "remui", "minsi", "maxsi", "select", "andi", "xori"]


class Program:
    """Random integer tiles over rows and keys, built as a kernel's body builds them."""

    def __init__(self, seed: int, block: ir.Block):
        self.random = random.Random(seed)
        self.b = Builder(block, ir.Location.unknown())
        start = self.b.value("tt.get_program_id", self.b.i32, [], {"axis": self.b.number(self.b.i32, 0)})
        self.tiles = [self.steps(axis, start) for axis in (ROWS, KEYS) for _ in range(2)]
        for _ in range(12):
            self.tiles.append(self.made(self.random.choice(NAMES)))

    def number(self) -> Tile:
        return Tile(self.b.constant(self.b.i32, self.random.choice(NUMBERS)))

    def steps(self, axis: Axis, program: ir.Value) -> Tile:
        b = self.b
        limits = {"start": b.number(b.i32, 0), "end": b.number(b.i32, axis.extent)}
        steps = Tile(b.value("tt.make_range", shaped(b.i32, (axis,)), [], limits), (axis,))
        if self.random.random() < 0.3:
            return steps
        size = Tile(b.constant(b.i32, self.random.choice([axis.extent, *NUMBERS])))
        start = elementwise(b, lambda p, q: b.same("arith.muli", p, q), [Tile(program), size])
        return elementwise(b, lambda p, q: b.same("arith.addi", p, q), [start, steps])

    def made(self, name: str) -> Tile:
        b = self.b
        x, y = self.random.choice(self.tiles), self.random.choice([*self.tiles, self.number(), self.number()])
        if name in ("divui", "remui"):
            y = Tile(b.constant(b.i32, self.random.choice([n for n in NUMBERS if n > 0])))
        if name == "select":
            z = self.random.choice(self.tiles)
            return elementwise(b, lambda p, q, r: b.select(b.compare("slt", p, q), q, r), [x, y, z])
        if name in ("addi", "subi", "muli", "minsi", "maxsi") and self.random.random() < 0.3:
            x, y = y, x
        return elementwise(b, lambda p, q: b.same(f"arith.{name}", p, q), [x, y])


def holds(info: AxisInfo, elements: torch.Tensor) -> bool:
    """Whether each program's `elements` are what `info` says, an axis after the other; wrapped sums are left out of the comparison."""
    if info.constant is not None and not (elements == info.constant).all():
        return False
    for axis, (run, divisor, same) in enumerate(zip(info.contiguity, info.divisibility, info.constancy)):
        along = elements.movedim(axis + 1, -1)
        runs, equal = along.unflatten(-1, (-1, run)), along.unflatten(-1, (-1, same))
        rising = runs[..., :1] + torch.arange(run) == runs
        if not rising.all() or (runs[..., 0] % min(divisor, 1 << 20)).any() or (equal != equal[..., :1]).any():
            return False
    return True


def elements(seed: int) -> list[tuple[AxisInfo, torch.Tensor]]:
    """Of each tile that is made: its info, and its elements in five programs."""
    with context() as known, ir.Location.unknown():
        known.allow_unregistered_dialects = True
        module = ir.Module.create()
        program = Program(seed, module.body)
        machine = Machine(0, 5, torch.ones(5, dtype=torch.bool), RULES)
        machine.block(module.body)
        values = [tile.value for tile in program.tiles if tile.axes]
        return [(program.b.axes.of(value), machine.env[value].long()) for value in values]


def wrong(seed: int) -> list[AxisInfo]:
    return [info for info, found in elements(seed) if not holds(info, found)]


@pytest.mark.parametrize("part", range(8))
def test_infos_are_true(part):
    assert [found for seed in range(part * 50, part * 50 + 50) for found in wrong(seed)] == []


@pytest.mark.parametrize("name", ["addi", "subi", "remui", "minsi", "maxsi", "select"])
def test_infos_of_plain_spellings_are_not(name, monkeypatch):
    monkeypatch.setitem(TOO_MUCH, f"arith.{name}", lambda *_: False)
    assert any(wrong(seed) for seed in range(400))


def test_elements_are_those_of_plain_spellings(monkeypatch):
    spelled = [elements(seed) for seed in range(80)]
    monkeypatch.setattr(Axes, "claims_too_much", lambda *_: False)
    for seed, found in enumerate(spelled):
        assert all(torch.equal(x, y) for (_, x), (_, y) in zip(found, elements(seed), strict=True))
