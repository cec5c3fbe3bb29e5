"""The bytes that the pool of CUDA graphs holds for a training step, before anything has run.

The allocations of the forward's program and of the backward's are played through, in order: a warm-up and a recording of each. The pool keeps
what it takes of the device. Saved tensors lie in it, and free their blocks while the backward is recorded.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch.utils.flop_counter import flop_registry

from ..dialect.analysis.memory.live_bytes import ARENA_OF, GIVEN, RESULT, LiveBytes
from ..dialect.interpreter.aten import operator
from ..dialect.ir.functions import EXTERN, graph_functions, is_extern
from ..dialect.mlir import ir
from .caching_allocator import MEDIUM, SMALL, Block, Pool

WORKSPACE = (4096 * 2 + 16 * 8) << 10  # bytes of cuBLAS's
HOPPER_WORKSPACE = 32 << 20  # from sm_90 on


@dataclass(frozen=True)
class Played:
    """A program for the pool. `copied`: bytes of each input that a recording has a copy of; `workspace`: of cuBLAS's, which op `product` is the
    first to ask for; `reserved`: of what a warm-up asks for at once (`Replayed`)."""

    program: LiveBytes
    copied: Sequence[int] = ()
    workspace: int = 0
    product: int | None = None
    reserved: int = 0


@dataclass
class _Step:
    """One run of a forward and of its backward in a pool. `saved`: of what the backward is given, by its place in `held`, the place of the
    forward's result."""

    pool: Pool
    saved: Mapping[int, int]
    blocks: dict[int, Block] = field(default_factory=dict)  # of the forward's results, by place

    def forward(self, played: Played, *, is_warm_up: bool) -> None:
        if is_warm_up and played.reserved - self.pool.available >= MEDIUM:
            self.pool.free(self.pool.allocate(played.reserved - self.pool.available))
        self.blocks = self._run(played, {}, is_warm_up)

    def backward(self, played: Played, *, is_warm_up: bool) -> None:
        given = {own: self.blocks.pop(place) for own, place in self.saved.items() if place in self.blocks}
        for block in (*self._run(played, given, is_warm_up).values(), *self.blocks.values()):
            self.pool.free(block)  # before the next step: its caller holds no gradient then

    def _run(self, played: Played, given: dict[int, Block], is_warm_up: bool) -> dict[int, Block]:
        """Plays one program; returns the blocks that outlive it, by place in `held`. A warm-up reads inputs where they are."""
        program, blocks = played.program, dict(given)
        beside = [] if is_warm_up else [self.pool.allocate(size) for size in played.copied]
        begins, ends = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
        for place, each in enumerate(program.held):
            begins[each.first].append(place)
            if each.kind != RESULT and not (each.kind == GIVEN and each.last == program.end):
                ends[each.last].append(place)
        for number in range(program.end + 1):
            for place in begins[number]:
                if program.held[place].kind != GIVEN and program.held[place].bytes:
                    blocks[place] = self.pool.allocate(program.held[place].bytes)
            if number == played.product:
                beside.append(self.pool.allocate(played.workspace))
            for place in ends[number]:
                if place in blocks:
                    self.pool.free(blocks.pop(place))
        for block in beside:
            self.pool.free(block)
        return blocks


def smallest_pool(forward: Played, backward: Played, saved: Mapping[int, int]) -> tuple[int, int]:
    """The bytes of the pool, and those that the forward's warm-up is to reserve for it: what it surely takes itself, or what the step holds at
    its peak. Of one segment all that is freed meets again, but blocks that fit better elsewhere make it one too many."""
    live = max(_live_bytes(each) for each in (forward, backward))
    found = [(pool_bytes(replace(forward, reserved=size), backward, saved), size) for size in (forward.reserved, live)]
    return min(found)


def _live_bytes(played: Played) -> int:
    return played.program.peak()[0] + sum(played.copied) + (0 if played.product is None else played.workspace)


def pool_bytes(forward: Played, backward: Played, saved: Mapping[int, int]) -> int:
    """The bytes of the pool after a warm-up and a recording of both."""
    pool = Pool()
    step = _Step(pool, saved)
    for is_warm_up in (True, False):
        step.forward(forward, is_warm_up=is_warm_up)
        step.backward(backward, is_warm_up=is_warm_up)
    return pool.held


def saved_places(forward: LiveBytes, backward: LiveBytes, results: Sequence[int | None]) -> dict[int, int]:
    """The forward's results that the backward is given, by places in `held`. `results`: for each tensor that the backward is given, the number
    of the forward's result that it is; None for another."""
    made = {n: place for place, each in enumerate(forward.held) if each.kind == RESULT for n in each.numbers}
    found: dict[int, int] = {}
    for place, each in enumerate(backward.held):
        for number in each.numbers if each.kind == GIVEN else ():
            result = results[number]
            if result is not None and result in made:
                found[place] = made[result]
    return found


def large_bytes(program: LiveBytes) -> int:
    """The bytes that a warm-up of the forward asks for at once."""
    return sum(each.bytes for each in program.held if each.kind in (RESULT, ARENA_OF) and each.bytes > SMALL)


def workspace_of(machine: Mapping[str, Any]) -> int:
    """Bytes that cuBLAS works in, on a GPU."""
    return HOPPER_WORKSPACE if machine.get("capability", 0) >= 90 else WORKSPACE


def first_product(module: ir.Module) -> int | None:
    """The number of the first op of a program that multiplies matrices by cuBLAS."""
    with module.context:
        table = ir.SymbolTable(module.operation)
        (graph,) = graph_functions(module)
        for number, op in enumerate(graph.regions[0].blocks[0].operations):
            if op.operation.name == "func.call" and _is_product(
                table[op.operation.attributes["callee"].value].operation
            ):
                return number
    return None


def _is_product(function: ir.Operation) -> bool:
    """Whether an operator multiplies matrices: one whose operations are counted, of no images and no heads."""
    if not is_extern(function):
        return False
    try:
        packet = operator(function.attributes[EXTERN].value).overloadpacket
    except AttributeError:
        return False
    given = function.attributes["function_type"].value.inputs
    return packet in flop_registry and all(each.rank <= 3 for each in given if isinstance(each, ir.MemRefType))
