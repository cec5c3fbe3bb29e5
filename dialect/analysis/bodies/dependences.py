"""How the values in a body depend on the indices of its loops: addresses linearly where they can, others somehow.

An access is taken as its indices are written, which is what a CPU's code evaluates; but where a quotient meets its remainder, its indices become
`ZERO` and what was divided.
"""

from ...ir.shapes import constant, layout_of
from ...mlir import ir
from ..affine.linear_forms import linear
from .body_tree import LOOPS, READS, ZERO, Block, Dependence, Node


class Dependences:
    """Of the values in `block`, whose arguments are loop indices: `known`; found in one walk, which also notes the addresses of accesses.
    `opaque`: loop indices used otherwise than linearly in an index. `types`: of the values."""

    def __init__(self, block: Block, types: dict[int, ir.Type]):
        self.types = types
        self.known: dict[int, Dependence] = {argument: {argument: 1} for argument in block.arguments}
        self.opaque: set[int] = set()
        # Quotients and remainders -> what is divided, by how much, whether this is the quotient.
        self.digits: dict[int, tuple[int, int, bool]] = {}
        self.visit(block)

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
                if node.position is None and isinstance(self.types[operand], index):
                    self.opaque.update(self.of(operand))
            for inner in node.blocks:
                if node.name in LOOPS:
                    for argument in inner.arguments:
                        self.known[argument] = {argument: 1}
                elif node.name in ("scf.for", "scf.while"):
                    merged = self.carried(node)
                self.visit(inner)
                for value in inner.yielded:
                    if isinstance(self.types[value], index):
                        self.opaque.update(self.of(value))
                    merged.update(dict.fromkeys(self.of(value)))
                if node.name in LOOPS:
                    for argument in inner.arguments:
                        merged.pop(argument, None)
            for result in node.results:
                self.known[result] = merged

    def carried(self, node: Node) -> Dependence:
        """Dependence of the values that an `scf.for` or `scf.while` carries: of all that one of them has, and of how often it steps."""
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
        layout, indices = layout_of(self.types[base]), list(indices)
        form = linear(layout.results[0])
        for i in quotients:
            divided, by, _ = self.digits[indices[i]]
            for j, value in enumerate(indices):
                step = form.steps.get(j)
                meets = self.digits.get(value) == (divided, by, False) and form.opaque.isdisjoint((i, j))
                if meets and isinstance(step, int) and form.steps.get(i) == by * step:
                    indices[i], indices[j] = ZERO, divided
                    break
        return indices

    def address(self, base: int, indices: list[int]) -> Dependence:
        return self.affine(layout_of(self.types[base]).results[0], [self.of(i) for i in indices])

    def affine(self, e: ir.AffineExpr, dims: list[Dependence]) -> Dependence:
        """The dependence of `e` of such dims; one under a product of symbols, a division or a remainder is not linear."""
        form, total = linear(e), Dependence()
        for d, step in form.steps.items():
            for index, c in dims[d].items():
                known = total.get(index, 0)
                if known is None or c is None or not isinstance(step, int):
                    total[index] = None
                else:
                    total[index] = known + c * step
        for d in form.opaque:
            total.update(dict.fromkeys(dims[d]))
            self.opaque.update(dims[d])
        return total
