"""Whether a kernel may write a result over an operand: every element is read before it is written, at the same index."""

from dataclasses import dataclass, field

from ..ir.shapes import constant
from ..mlir import ir

LOOPS = ("bascule.reduce", "bascule.foreach", "bascule.compute", "bascule.scan")


@dataclass
class _Access:
    number: int  # in the order of the text
    indices: tuple  # index values, as `_Index` or None for what is not followed
    unit: int  # which op of the kernel's own block it stands in
    loops: frozenset  # indices of all loops around it, but those of one iteration
    plain_store: bool = True


@dataclass
class InPlace:
    """The accesses of one kernel function (program stage); `allows(operand, destination)` by argument numbers."""

    function: ir.Operation
    reads: dict[int, list[_Access]] = field(default_factory=dict)
    writes: dict[int, list[_Access]] = field(default_factory=dict)
    opaque: set[int] = field(default_factory=set)  # arguments used otherwise

    def __post_init__(self) -> None:
        block = self.function.regions[0].blocks[0]
        self.arguments = list(block.arguments)
        self.kernel = next(op.operation for op in block.operations if op.operation.name == "bascule.kernel")
        domain = self.kernel.regions[0].blocks[0]
        self.domain = _indices(self.kernel)
        units = [op.operation for op in domain.operations]
        self.kinds = [op.name for op in units]
        self.group = not list(domain.arguments) and self.kinds.count("bascule.foreach") > 1
        numbers = {argument: i for i, argument in enumerate(self.arguments) if isinstance(argument.type, ir.MemRefType)}
        count = 0
        for unit, top in enumerate(units):

            def visit(op, unit=unit):
                nonlocal count
                op = op.operation
                count += 1
                for position, operand in enumerate(op.operands):
                    number = numbers.get(operand)
                    if number is None:
                        continue
                    if op.name == "memref.load" and position == 0:
                        indices = tuple(map(_key, list(op.operands)[1:]))
                        self.reads.setdefault(number, []).append(_Access(count, indices, unit, frozenset()))
                    elif op.name == "bascule.store" and position == 1:
                        indices = tuple(map(_key, list(op.operands)[2:]))
                        plain = "mode" not in op.attributes
                        self.writes.setdefault(number, []).append(
                            _Access(count, indices, unit, self._around(op), plain)
                        )
                    else:
                        self.opaque.add(number)
                return ir.WalkResult.ADVANCE

            top.walk(visit, ir.WalkOrder.PRE_ORDER)

    def _around(self, op: ir.Operation) -> frozenset:
        indices: set[ir.Value] = set()
        while op != self.kernel:
            op = op.parent.operation
            if "ranges" in op.attributes:
                indices |= _indices(op)
        return frozenset(indices)

    def allows(self, operand: int, destination: int) -> bool:
        """Whether `destination` may be the memory of `operand`, which nothing needs after the kernel."""
        if self.arguments[operand].type != self.arguments[destination].type:
            return False
        writes, reads = self.writes.get(destination, []), self.reads.get(operand, [])
        if (
            {operand, destination} & self.opaque
            or len(writes) != 1
            or operand in self.writes
            or destination in self.reads
        ):
            return False
        (write,) = writes
        if not write.plain_store or not self._one_place_a_point(write):
            return False
        return all(self._before(read, write) for read in reads)

    def _one_place_a_point(self, write: _Access) -> bool:
        """Each index is an index of a loop, and those of all loops around are there: no two points store to one place."""
        if any(index is None or index[0] != "index" for index in write.indices):
            return False
        return write.loops <= {index for _, index in write.indices}

    def _before(self, read: _Access, write: _Access) -> bool:
        if read.number > write.number:
            return False
        if self.group and read.unit != write.unit and self.kinds[read.unit] == "bascule.foreach":
            return False  # an independent loop, which may run after this one
        if read.indices == write.indices and None not in read.indices:
            return True  # the same element, at the same point of the same loops
        if read.unit == write.unit:
            return False
        # An earlier loop of the same point of the domain: whatever it reads there is of this point alone.
        pairs = zip(read.indices, write.indices)
        return bool(self.domain) and all(r == w for r, w in pairs if w[1] in self.domain)


def _indices(loop: ir.Operation) -> set[ir.Value]:
    """The indices of a loop that take more than one value."""
    sizes = loop.attributes["ranges"].value.results
    return {i for i, size in zip(loop.regions[0].blocks[0].arguments, sizes) if constant(size) != 1}


def _key(index: ir.Value) -> tuple | None:
    """Equal for indices that are equal: the index of a loop, or an `affine.apply` of some. None for others."""
    if isinstance(index.owner, ir.Block):
        return "index", index
    op = index.owner.operation
    if op.name != "affine.apply":
        return None
    keys = tuple(map(_key, op.operands))
    return None if None in keys else ("apply", op.attributes["map"], keys)
