"""Loops that differ only in the buffers they touch, as an optimizer's step has one a parameter, and in what they add to an index, as the
pieces of a `cat` do: one code, a table of buffers and of offsets."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.analysis.bodies.body_tree import Block, Node
from bascule.dialect.ir.shapes import constant
from bascule.dialect.mlir import ir

from ..body.schedule import LoopPlan


@dataclass(eq=False)
class Family:
    """`members[m]`: of loop m, the arguments (by position) that are its buffers, then its offsets. `leader` is the first loop; its buffers
    are those whose value numbers are `buffers`, and `shifts` the ops that add an offset."""

    leader: Node
    buffers: list[int]
    shifts: list[Node]
    members: list[list[int]] = field(default_factory=list)


class Families:
    """Loops by their shape and plan."""

    def __init__(self, body: Body, positions: dict[int, int], plans: dict[Node, LoopPlan]):
        self.body, self.plans = body, plans
        self.positions = positions  # value number of a buffer argument -> its position
        self.known: dict[Hashable, Family] = {}

    def add(self, node: Node) -> Family | None:
        """The family that `node` founds, or None if it has joined one."""
        shape = _Shape(self.body, self.positions)
        inside = [self.plans.get(inner) for inner in node.blocks[0].walk()]
        key = shape.node(node), self.plans[node], *inside
        family, new = self.known.get(key), None
        if family is None:
            family = new = self.known[key] = Family(node, list(shape.buffers), list(shape.shifts))
        family.members.append([*(self.positions[number] for number in shape.buffers), *shape.shifts.values()])
        return new


class _Shape:
    """A loop but for its buffers and offsets, as nested tuples; `buffers` and `shifts` in the order they are met."""

    def __init__(self, body: Body, positions: dict[int, int]):
        self.body, self.positions = body, positions
        self.buffers: dict[int, int] = {}
        self.shifts: dict[Node, int] = {}
        self.inside: dict[int, int] = {}

    def node(self, node: Node) -> Hashable:
        operands = tuple(self.value(number) for number in node.operands)
        blocks = tuple(self.block(block) for block in node.blocks)
        for result in node.results:
            self.inside[result] = len(self.inside)
        shift = shift_of(node)
        if shift is not None:
            self.shifts[node] = shift
            return "shift", operands
        attributes = node.op.attributes
        named = tuple((name, attributes[name]) for name in sorted(attributes))
        return node.name, named, tuple(node.types), operands, blocks

    def block(self, block: Block) -> Hashable:
        for argument in block.arguments:
            self.inside[argument] = len(self.inside)
        nodes = tuple(self.node(node) for node in block.nodes)
        return nodes, tuple(self.value(number) for number in block.yielded)

    def value(self, number: int) -> Hashable:
        if number in self.inside:
            return "inside", self.inside[number]
        if number in self.positions:
            at = self.buffers.setdefault(number, len(self.buffers))
            return "buffer", at, self.body.types[number]
        return "outside", number


def shift_of(node: Node) -> int | None:
    """The number that an op adds to an index, if that is what it does."""
    map_ = node.op.attributes["map"].value if node.name == "affine.apply" else None
    if map_ is None or (map_.n_dims, map_.n_symbols) != (1, 0):
        return None
    return constant(map_.results[0] - ir.AffineExpr.get_dim(0))
