"""A kernel's body decoded once into Python records: several walks (strides, cost, emission) then cost no binding calls.

Of tensors or of memory alike. Every value has a number. Beside the records, `Body` knows how each index expression and address depends
on the loop indices: that is what vectorisation and collapsing decide by.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...analysis.affine.linear_forms import linear
from ...analysis.bodies.accesses import LOOPS, READS
from ...analysis.bodies.body_summary import sizes_of
from ...ir.shapes import constant, layout_of
from ...ir.types import carried
from ...mlir import ir

ACCUMULATORS = {"welford": 3, "softmax": 2, "argmax": 2, "argmin": 2}  # of a kind of reduction, where not one

ZERO = -1  # the number of an index that is 0

# loop index (value number) -> coefficient; None where the dependence is not linear with a constant coefficient
Dependence = dict[int, int | None]


@dataclass(slots=True, eq=False)
class Node:
    """One op."""

    name: str
    op: ir.Operation
    operands: list[int]  # of a read or store: where a quotient meets its remainder, ZERO and what was divided
    results: list[int]
    types: list[ir.Type]  # of the results
    blocks: list["Block"]
    kinds: list[str]  # of a reduce: the kind of each value it yields
    address: Dependence | None = None  # of a read or store: how its element offset depends on the loop indices
    position: Dependence | None = None  # of a random number: the same of its position


@dataclass(slots=True, eq=False)
class Block:
    arguments: list[int]
    nodes: list[Node]
    yielded: list[int]

    def walk(self) -> Iterator[Node]:
        for node in self.nodes:
            yield node
            for block in node.blocks:
                yield from block.walk()


@dataclass(slots=True, eq=False)
class Body:
    """The decoded region of a `bascule.kernel`."""

    block: Block
    numbers: dict[ir.Value, int]
    types: dict[int, ir.Type]
    dependence: dict[int, Dependence] = field(default_factory=dict)
    opaque: set[int] = field(default_factory=set)  # loop indices used otherwise than linearly in an address
    extents: dict[int, int | None] = field(default_factory=dict)  # loop index -> size of its range, None: dynamic
    # Those inside the kernel, in the order of a walk that meets outer ones first.
    loops: list[Node] = field(default_factory=list)


def decode(kernel: ir.Operation, arguments: list[ir.Value]) -> Body:
    """Decodes the region of `kernel`; `arguments` are the enclosing function's."""
    numbers: dict[ir.Value, int] = {}
    types: dict[int, ir.Type] = {ZERO: ir.IndexType.get(kernel.context)}

    def number(value: ir.Value) -> int:
        known = numbers.get(value)
        if known is None:
            known = numbers[value] = len(numbers)
            types[known] = carried(value.type)
        return known

    def block(source: ir.Block) -> Block:
        decoded = Block([number(a) for a in source.arguments], [], [])
        for view in source.operations:
            op = view.operation
            name = op.name
            operands = [number(v) for v in op.operands]
            if name in ("bascule.yield", "scf.yield", "scf.condition"):
                decoded.yielded = operands
                break
            results = list(op.results)
            regions = [block(region.blocks[0]) for region in op.regions if len(region.blocks)]
            kinds = [op.attributes["kind"].value] if name == "bascule.reduce" else []
            decoded.nodes.append(
                Node(
                    name,
                    op,
                    operands,
                    [number(r) for r in results],
                    [types[number(r)] for r in results],
                    regions,
                    kinds,
                )
            )
        return decoded

    for argument in arguments:
        number(argument)
    body = Body(block(kernel.regions[0].blocks[0]), numbers, types)
    body.loops = [node for node in body.block.walk() if node.name in LOOPS]
    for op, inner in ((kernel, body.block), *((node.op, node.blocks[0]) for node in body.loops)):
        body.extents.update(zip(inner.arguments, map(constant, sizes_of(op))))
    body.dependence.update({argument: {argument: 1} for argument in body.block.arguments})
    _Dependences(body).visit(body.block)
    return body


class _Dependences:
    """Fills `dependence`, `opaque` and the addresses of `body`, in one walk."""

    def __init__(self, body: Body):
        self.body = body
        self.known = body.dependence
        # Quotients and remainders -> what is divided, by how much, whether this is the quotient.
        self.digits: dict[int, tuple[int, int, bool]] = {}

    def of(self, value: int) -> Dependence:
        return self.known.get(value, {})

    def visit(self, block: Block) -> None:
        index = ir.IndexType
        for node in block.nodes:
            if node.name == "affine.apply":
                map_ = node.op.attributes["map"].value
                dims = [self.of(v) for v in node.operands[: map_.n_dims]]
                self.known[node.results[0]] = self.affine(map_.results[0], dims)
                self.divide(node, map_.results[0])
                continue
            if node.name in READS:
                node.operands[1:] = self.met(node.operands[0], node.operands[1:])
                node.address = self.address(node.operands[0], node.operands[1:])
                self.known[node.results[0]] = dict.fromkeys({**node.address, **self.of(node.operands[0])})
                continue
            if node.name == "bascule.store":
                node.operands[2:] = self.met(node.operands[1], node.operands[2:])
                node.address = self.address(node.operands[1], node.operands[2:])
                continue
            if node.name == "bascule.random":
                node.position = self.of(node.operands[1])
            merged: Dependence = {}  # of every result
            for operand in node.operands:
                merged.update(dict.fromkeys(self.of(operand)))
                if node.position is None and isinstance(self.body.types[operand], index):
                    self.body.opaque.update(self.of(operand))
            for inner in node.blocks:
                if node.name in LOOPS:
                    for argument in inner.arguments:
                        self.known[argument] = {argument: 1}
                elif node.name == "scf.while":
                    merged = self.carried(node)
                self.visit(inner)
                for value in inner.yielded:
                    if isinstance(self.body.types[value], index):
                        self.body.opaque.update(self.of(value))
                    merged.update(dict.fromkeys(self.of(value)))
                if node.name in LOOPS:
                    for argument in inner.arguments:
                        merged.pop(argument, None)
            for result in node.results:
                self.known[result] = merged

    def carried(self, node: Node) -> Dependence:
        """The dependences of the values that an `scf.while` carries: all that one of them depends on, and how often it steps."""
        inside = dict.fromkeys(index for operand in node.operands for index in self.of(operand))
        while True:
            self.known.update((argument, inside) for block in node.blocks for argument in block.arguments)
            found = dict(inside)
            for block in node.blocks:
                self.visit(block)
                found.update(dict.fromkeys(index for value in block.yielded for index in self.of(value)))
            if found.keys() == inside.keys():
                return found
            inside = found

    def divide(self, node: Node, e: ir.AffineExpr) -> None:
        """Notes an index that is the quotient or the remainder of another by a constant."""
        if isinstance(e, ir.AffineFloorDivExpr | ir.AffineModExpr) and isinstance(e.lhs, ir.AffineDimExpr):
            by = constant(e.rhs)
            if by is not None and by > 0:
                self.digits[node.results[0]] = (node.operands[e.lhs.position], by, isinstance(e, ir.AffineFloorDivExpr))

    def met(self, base: int, indices: list[int]) -> list[int]:
        """The indices of an access: where the steps of a quotient and its remainder make what was divided, that, and no quotient."""
        quotients = [i for i, v in enumerate(indices) if self.digits.get(v, (0, 0, False))[2]]
        if not quotients:
            return indices
        layout, indices = layout_of(self.body.types[base]), list(indices)
        steps, opaque = linear(layout.results[0])
        for i in quotients:
            divided, by, _ = self.digits[indices[i]]
            for j, value in enumerate(indices):
                step = steps.get(j)
                meets = self.digits.get(value) == (divided, by, False) and opaque.isdisjoint((i, j))
                if meets and isinstance(step, int) and steps.get(i) == by * step:
                    indices[i], indices[j] = ZERO, divided
                    break
        return indices

    def address(self, base: int, indices: list[int]) -> Dependence:
        type_ = self.body.types[base]
        return self.affine(layout_of(type_).results[0], [self.of(i) for i in indices])

    def affine(self, e: ir.AffineExpr, dims: list[Dependence]) -> Dependence:
        """The dependence of `e` of such dims; one under a product of symbols, a division or a remainder is not linear."""
        steps, divided = linear(e)
        total: Dependence = {}
        for d, step in steps.items():
            for index, c in dims[d].items():
                known = total.get(index, 0)
                if known is None or c is None or not isinstance(step, int):
                    total[index] = None
                else:
                    total[index] = known + c * step
        for d in divided:
            total.update(dict.fromkeys(dims[d]))
            self.body.opaque.update(dims[d])
        return total
