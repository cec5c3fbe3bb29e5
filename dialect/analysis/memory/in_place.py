"""Whether a kernel may write a result over an operand: every element is read before it is written, at the same index."""

from dataclasses import dataclass, field
from math import prod

from ...ir import builders
from ...ir.shapes import constant, expr, layout_of, row_major, shape_of
from ...mlir import ir
from ...scheduling.gpu.clusters import orders_of, shared_by
from ...scheduling.gpu.schedule_form import walks_of
from ..affine.mixed_terms import simplified
from .buffers import strides, substitute

ROWS = ("bascule.compute", "bascule.scan")  # loops with a result that later loops read


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
    rows: dict[ir.Value, list[tuple[int, tuple]]] = field(default_factory=dict)  # row -> arguments it reads, and where

    def __post_init__(self) -> None:
        block = self.function.regions[0].blocks[0]
        self.arguments = list(block.arguments)
        self.kernel = next(op.operation for op in block.operations if op.operation.name == "bascule.kernel")
        domain = self.kernel.regions[0].blocks[0]
        self.domain = _indices(self.kernel)
        self.units = units = [op.operation for op in domain.operations]
        self.kinds = [op.name for op in units]
        self.orders = orders_of(self.kernel) if shared_by(self.kernel) > 1 else {}
        self.places = self._places()
        self.group = not list(domain.arguments) and self.kinds.count("bascule.foreach") > 1
        numbers = {argument: i for i, argument in enumerate(self.arguments) if isinstance(argument.type, ir.MemRefType)}
        count = 0
        for unit, top in enumerate(units):

            def visit(op, unit=unit):
                nonlocal count
                op = op.operation
                count += 1
                if op.name == "tensor.extract":
                    self._read_again(op, count, unit)
                for position, operand in enumerate(op.operands):
                    number = numbers.get(operand)
                    if number is None:
                        continue
                    if op.name == "memref.load" and position == 0:
                        indices = tuple(map(_key, list(op.operands)[1:]))
                        self._read(op, number, _Access(count, indices, unit, frozenset()))
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

    def _places(self) -> list[int]:
        """Where each unit runs: loops of one walk do where the first of them stands."""
        walks, leaders = walks_of(self.kernel), dict[int, int]()
        return [leaders.setdefault(walks[op], i) if op in walks else i for i, op in enumerate(self.units)]

    def _read(self, op: ir.Operation, number: int, access: _Access) -> None:
        """Notes that `op` reads argument `number`, for itself and for those that read the rows in which it stands."""
        self.reads.setdefault(number, []).append(access)
        while op != self.kernel:
            op = op.parent.operation
            if op.name in ROWS:
                for row in op.results:
                    self.rows.setdefault(row, []).append((number, access.indices))

    def _read_again(self, op: ir.Operation, count: int, unit: int) -> None:
        """A row that a loop made may be computed anew where its elements are read: then what it read is read there."""
        row, *indices = op.operands
        if row not in self.rows:
            return
        made = row.owner.operation
        places = map(_key, indices) if made.name == "bascule.compute" else [None] * len(indices)  # a scan reads any
        here = dict(zip(made.regions[0].blocks[0].arguments, places))
        for number, read in list(self.rows[row]):
            seen = tuple(_replaced(key, here) for key in read)
            self._read(op, number, _Access(count, seen, unit, frozenset()))

    def _around(self, op: ir.Operation) -> frozenset:
        indices: set[ir.Value] = set()
        while op != self.kernel:
            op = op.parent.operation
            if "ranges" in op.attributes:
                indices |= _indices(op)
        return frozenset(indices)

    def allows(self, operand: int, destination: int) -> bool:
        """Whether `destination` may be the memory of `operand`, which nothing needs after the kernel.

        Where their types differ, `destination` is seen from the first element of `operand` on, and both are static and dense.
        """
        writes, reads = self.writes.get(destination, []), self.reads.get(operand, [])
        if (
            {operand, destination} & self.opaque
            or len(writes) != 1
            or operand in self.writes
            or destination in self.reads
            or not writes[0].plain_store
        ):
            return False
        (write,) = writes
        if self.orders and not all(self._together(read, write) for read in reads):
            return False
        old, new = self.arguments[operand], self.arguments[destination]
        if old.type == new.type:
            if shape_of(old) != shape_of(new):  # equal types of unknown sizes
                return False
            return self._one_place_a_point(write) and all(self._before(read, write) for read in reads)
        return self._alike(operand, destination) and self._before_elsewhere(operand, reads, destination, write)

    def _together(self, read: _Access, write: _Access) -> bool:
        """Of rows that several programs share: whether a read is over for all of them before one writes. They meet after each reduction; in
        loops over the same ranges in one order, a program has the same points."""
        if self.kinds[read.unit] == "bascule.reduce":
            return True
        loops = self.units[read.unit], self.units[write.unit]
        if not {*loops} <= self.orders.keys() or None in read.indices:
            return False
        same = loops[0].attributes["ranges"] == loops[1].attributes["ranges"]
        here, there = (list(loop.regions[0].blocks[0].arguments) for loop in loops)
        renamed = dict(zip(here, (("index", index) for index in there)))
        alike = same and self.orders[loops[0]] == self.orders[loops[1]]
        return alike and tuple(_replaced(key, renamed) for key in read.indices) == write.indices

    def _in_walk(self, read: _Access, write: _Access) -> dict[ir.Value, ir.Value] | None:
        """The indices of the loop that reads, each with that of the loop that writes, where both loops walk together, step by step."""
        if read.unit == write.unit or self.places[read.unit] != self.places[write.unit]:
            return None
        here, there = (self.units[access.unit].regions[0].blocks[0].arguments for access in (read, write))
        return dict(zip(here, there))

    def _alike(self, operand: int, destination: int) -> bool:
        """Whether both are dense, of one length and element type."""
        types = [self.arguments[number].type for number in (operand, destination)]
        if any(not t.has_static_shape or strides(t) != row_major([expr(n) for n in t.shape]) for t in types):
            return False
        lengths = {prod(t.shape) for t in types}
        return len(lengths) == 1 and types[0].element_type == types[1].element_type

    def _before_elsewhere(self, operand: int, reads: list[_Access], destination: int, write: _Access) -> bool:
        """As `_before`, where elements at one place have other indices in `operand` than in `destination`."""
        walked = {read.number: self._in_walk(read, write) for read in reads}
        same = [read for read in reads if self._same_place(operand, read, destination, write, walked[read.number])]
        if not self._one_place_a_point(write) and not any(self._plain(read, write) for read in same):
            return False
        return all(
            read.number < write.number
            and self.places[read.unit] <= self.places[write.unit]
            and (
                read in same
                or (
                    self.places[read.unit] != self.places[write.unit]
                    and self._same_row(operand, read, destination, write)
                )
            )
            and not (self.group and read.unit != write.unit)
            for read in reads
        )

    def _plain(self, access: _Access, write: _Access) -> bool:
        """Whether the indices are those of all loops around `write`."""
        found = {index[1] for index in access.indices if index is not None and index[0] == "index"}
        return len(found) == len(access.indices) and write.loops <= found

    def _same_place(self, operand: int, read: _Access, destination: int, write: _Access, renamed=None) -> bool:
        dims: dict[ir.Value, ir.AffineExpr] = {}
        symbols = {value: ir.AffineExpr.get_symbol(i) for i, value in enumerate(builders.symbols_of(self.function))}
        here = self._address(operand, read, dims, symbols, renamed or {})
        there = self._address(destination, write, dims, symbols, {})
        if here is None or there is None:
            return False
        return simplified(here - there, len(dims), len(symbols)) == expr(0)

    def _same_row(self, operand: int, read: _Access, destination: int, write: _Access) -> bool:
        """Whether an earlier loop of a point of the domain reads, over all its turns, the elements that the point writes."""
        inner = [[i for i in _atoms(access.indices) if i not in self.domain] for access in (read, write)]
        sizes = [[_size(index) for index in indices] for indices in inner]
        if not self.domain or sizes[0] != sizes[1] or None in sizes[0]:
            return False
        return self._same_place(operand, read, destination, write, dict(zip(*inner)))

    def _address(self, number: int, access: _Access, dims: dict, symbols: dict, renamed: dict) -> ir.AffineExpr | None:
        """Where the element lies, counted in elements, as an expression of the indices of loops, which `dims` numbers."""

        def value_of(key: tuple | None) -> ir.AffineExpr | None:
            if key is None:
                return None
            if key[0] == "index":
                index = renamed.get(key[1], key[1])
                if index in symbols:
                    return symbols[index]
                return dims.setdefault(index, ir.AffineExpr.get_dim(len(dims)))
            _, map_, keys = key
            values = [value_of(k) for k in keys]
            if any(v is None for v in values):
                return None
            n = map_.value.n_dims
            return substitute(map_.value.results[0], values[:n], values[n:])

        values = [value_of(key) for key in access.indices]
        if any(v is None for v in values):
            return None
        return substitute(layout_of(self.arguments[number].type).results[0], values)

    def _one_place_a_point(self, write: _Access) -> bool:
        """Each index is an index of a loop, and those of all loops around are there: no two points store to one place."""
        if any(index is None or index[0] != "index" for index in write.indices):
            return False
        return write.loops <= {index for _, index in write.indices}

    def _before(self, read: _Access, write: _Access) -> bool:
        if read.number > write.number or self.places[read.unit] > self.places[write.unit]:
            return False
        if self.group and read.unit != write.unit and self.kinds[read.unit] == "bascule.foreach":
            return False  # an independent loop, which may run after this one
        if read.indices == write.indices and None not in read.indices:
            return True  # the same element, at the same point of the same loops
        if read.unit == write.unit:
            return False
        walked = self._in_walk(read, write)
        if walked is not None:
            steps: dict[ir.Value, tuple | None] = {index: ("index", other) for index, other in walked.items()}
            return tuple(_replaced(key, steps) for key in read.indices) == write.indices and None not in write.indices
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


def _atoms(keys: tuple) -> list[ir.Value]:
    """The indices of loops in `keys`, each once, in order."""
    found: dict[ir.Value, None] = {}

    def visit(key: tuple | None) -> None:
        if key is not None and key[0] == "index":
            found.setdefault(key[1])
        elif key is not None:
            for inner in key[2]:
                visit(inner)

    for key in keys:
        visit(key)
    return list(found)


def _size(index: ir.Value) -> int | None:
    """How many values the index of a loop takes, if that is known."""
    ranges = index.owner.owner.attributes["ranges"].value.results
    return constant(ranges[ir.BlockArgument(index).arg_number])


def _replaced(key: tuple | None, values: dict[ir.Value, tuple | None]) -> tuple | None:
    """`key` with other keys for indices of loops."""
    if key is None:
        return None
    if key[0] == "index":
        return values.get(key[1], key)
    keys = tuple(_replaced(k, values) for k in key[2])
    return None if None in keys else ("apply", key[1], keys)
