"""The ops of a region as a tree of records, and what stands in them: loops, reads and stores."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...ir.memory_ops import StoreOp
from ...mlir import ir

LOOPS = ("bascule.reduce", "bascule.foreach", "bascule.compute", "bascule.scan")
POSITIONS = ("argmax", "argmin")  # kinds of reductions to where an element is, in 64 bits
# Operation -> its first operand that is an index; the buffer stands before it.
READS = {"tensor.extract": 1, "memref.load": 1}
ACCESSES = {**READS, StoreOp.OPERATION_NAME: 2}
NESTED = frozenset((*LOOPS, "bascule.kernel", "bascule.scatter", "scf.if", "scf.for", "scf.while"))  # what has regions
ENDS = frozenset(("bascule.yield", "scf.yield", "scf.condition"))
ACCUMULATORS = {"welford": 3, "softmax": 2, "argmax": 2, "argmin": 2}  # of a kind of reduction, where not one

ZERO = -1  # the number of an index that is 0
# Loop index (value number) -> coefficient; None where the dependence is not linear with a constant coefficient.
Dependence = dict[int, int | None]


def sizes_of(op: ir.Operation) -> list[ir.AffineExpr]:
    """The sizes of an op's `ranges`."""
    return list(op.attributes["ranges"].value.results)


def indices_of(op: ir.Operation) -> list[ir.Value]:
    """The arguments of an op's region: its indices."""
    return list(op.regions[0].blocks[0].arguments)


@dataclass(slots=True, eq=False)
class Node:
    """One op as it stands when the tree is made. What follows `sizes` is there once the body is decoded."""

    name: str
    op: ir.Operation
    blocks: list["Block"]
    sizes: list[ir.AffineExpr]  # of a loop
    operands: list[int] = field(init=False)  # see `Dependences` for those of an access
    results: list[int] = field(init=False)
    types: list[ir.Type] = field(init=False)  # of the results
    kinds: list[str] = field(init=False)  # of a reduce: the kind of each value it yields
    address: Dependence | None = field(init=False)  # of an access: how its element offset depends on the loop indices
    position: Dependence | None = field(init=False)  # of a random number: the same of its position

    @staticmethod
    def of(op: ir.Operation, name: str) -> "Node":
        """Of an op with regions."""
        if name.startswith("scf."):
            return Node(name, op, [Block.of(region.blocks[0]) for region in op.regions if len(region.blocks)], [])
        return Node(name, op, [Block.of(op.regions[0].blocks[0])], sizes_of(op))

    @property
    def indices(self) -> list[int]:
        """Of a loop."""
        return self.blocks[0].arguments

    def inner_loops(self) -> list["Node"]:
        """The loops inside that are in no other one there."""
        found: list[Node] = []
        for block in self.blocks:
            for node in block.nodes:
                found += [node] if node.name in LOOPS else node.inner_loops()
        return found

    def uses(self) -> Iterator[int]:
        """The values that it and what is inside of it use."""
        yield from self.operands
        for block in self.blocks:
            yield from block.yielded
            for node in block.nodes:
                yield from node.uses()


@dataclass(slots=True, eq=False)
class Block:
    """One block. `arguments` and `yielded` are filled when the body is decoded, from those of `source` and of the op that ends it."""

    arguments: list[int]
    nodes: list[Node]
    yielded: list[int]
    source: ir.Block | None = None
    end: ir.Operation | None = None

    @staticmethod
    def of(source: ir.Block) -> "Block":
        nodes: list[Node] = []
        for view in source.operations:
            op = view.operation
            name = op.name
            if name in ENDS:
                return Block([], nodes, [], source, op)
            nodes.append(Node.of(op, name) if name in NESTED else Node(name, op, [], []))
        return Block([], nodes, [], source)

    def walk(self) -> Iterator[Node]:
        for node in self.nodes:
            yield node
            for block in node.blocks:
                yield from block.walk()
