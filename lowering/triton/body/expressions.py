"""Index arithmetic of a kernel as affine expressions, before anything is emitted.

Every value of type `index` is an affine expression: its symbols are the function's, its dimensions are *atoms*, the loop indices and the
indices that come from data, numbered in the order they are met. An address is the buffer's layout at such expressions, which MLIR's
affine simplification folds; so `x.view(..)[i, j]` at a flat index costs no division.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from bascule.dialect.analysis.affine.bounds import interval
from bascule.dialect.analysis.affine.linear_forms import Form, dims_of, linear
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.ir.shapes import Size, constant, expr, layout_of, symbol_count
from bascule.dialect.ir.types import carried
from bascule.dialect.mlir import ir

from ..values.float8 import FLOAT8
from ..values.tiles import is_pair

Expr: TypeAlias = ir.AffineExpr
ACCESSES = {"memref.load": 1, "bascule.store": 2}  # operation -> its first operand that is an index


def substitute(e: Expr, dims: Sequence[Expr], symbols: Sequence[Expr] | None = None) -> Expr:
    """`e` with its dimensions, and symbols if given, replaced."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineDimExpr):
        return dims[e.position]
    if isinstance(e, ir.AffineSymbolExpr):
        return e if symbols is None else symbols[e.position]
    if not isinstance(e, ir.AffineBinaryExpr):
        return e
    lhs, rhs = substitute(e.lhs, dims, symbols), substitute(e.rhs, dims, symbols)
    if isinstance(e, ir.AffineAddExpr):
        return expr(lhs + rhs)
    if isinstance(e, ir.AffineMulExpr):
        return expr(lhs * rhs)
    kind = type(e)  # floor or ceiling quotient, or remainder
    return expr(kind.get(lhs, rhs))


def _divides(e: Expr) -> bool:
    """Whether there is a quotient or a remainder in `e`."""
    e = e.maybe_downcast()
    if not isinstance(e, ir.AffineBinaryExpr):
        return False
    return not isinstance(e, ir.AffineAddExpr | ir.AffineMulExpr) or _divides(e.lhs) or _divides(e.rhs)


def _started(e: Expr, form: Form[int]) -> tuple[int, Expr]:
    """The number that is a term of `e`, and the sum of its other terms, in order; `form` is that of `e`."""
    if not isinstance(form.start, int):
        return 0, e
    rest = expr(0)
    for dim in sorted(form.steps):
        rest = rest + Expr.get_dim(dim) * form.steps[dim]
    for term, step in form.terms:
        rest = rest + term * step
    return form.start, expr(rest)


class Expressions:
    """The index values of a kernel function, and every use of one: addresses, and indices that become data."""

    def __init__(self, function: ir.Operation, kernel: ir.Operation):
        self.known: dict[ir.Value, Expr] = {}
        self.forms: list[Form[int]] = []  # of all uses
        self.atoms = 0
        self.extents: dict[int, Size] = {}  # of the atoms that are indices of loops
        self.simplifier, self.simple = Simplifier(), dict[Expr, Expr]()
        self.addresses: dict[ir.Operation, Expr] = {}  # access -> the element offset that it goes to
        self.linear: dict[ir.Operation, Form[int]] = {}  # access -> how that depends on the atoms
        self.parts: dict[ir.Operation, tuple[int, Expr]] = {}  # access -> the number in it, and the rest
        self.starts: dict[
            tuple[ir.Value, Expr], set[int]
        ] = {}  # (buffer, where to) -> elements from there that are accessed
        for position, argument in enumerate(function.regions[0].blocks[0].arguments):
            if isinstance(argument.type, ir.IndexType):
                self.known[argument] = Expr.get_symbol(position)
        self._enter(kernel)

    def of(self, value: ir.Value) -> Expr:
        """The expression of an index value; a new atom for one that comes from elsewhere."""
        if value not in self.known:
            self.known[value] = Expr.get_dim(self.atoms)
            self.atoms += 1
        return self.known[value]

    def address(self, op: ir.Operation) -> Expr:
        """The element offset that a load or a store goes to."""
        known = self.addresses.get(op.operation)
        if known is not None:
            return known
        buffer, *indices = list(op.operands)[ACCESSES[op.name] - 1 :]
        offset = substitute(layout_of(buffer.type).results[0], [self.of(index) for index in indices])
        self.addresses[op.operation] = found = self._simplified(offset)
        return found

    def always_inside(self, op: ir.Operation) -> bool:
        """Whether a load's indices are below its buffer's sizes, and not negative, at all points of the loops around it."""
        buffer, *indices = op.operands
        for size, index in zip(buffer.type.shape, map(self.of, indices)):
            extents = {atom: self._extent(atom) for atom in dims_of(index)}
            sizes = {atom: extent for atom, extent in extents.items() if extent is not None}
            if len(sizes) < len(extents) or size == ir.ShapedType.get_dynamic_size():
                return False
            low, high = interval(index, sizes)
            if not 0 <= low <= high < size:
                return False
        return True

    def _extent(self, atom: int) -> int | None:
        """The size of a loop's index, if it is a number."""
        return constant(expr(self.extents[atom])) if atom in self.extents else None

    def apart(self, op: ir.Operation) -> tuple[Expr, int]:
        """An element offset, and how many elements from there a load or a store goes to: one offset for all accesses of a buffer between which
        are always as many elements."""
        start, rest = self.parts[op]
        near = self.starts[op.operands[ACCESSES[op.name] - 1], rest]
        return (rest, start) if len(near) > 1 else (self.address(op), 0)

    def bound(self, value: ir.Value) -> int | None:
        """No less than the size of an index, or an integer that is computed of indices; None if it is not known."""
        if isinstance(value.type, ir.IndexType):
            return self._bound(self.of(value))
        owner = value.owner
        match None if isinstance(owner, ir.Block) else owner.name:
            case "arith.constant":
                return abs(owner.attributes["value"].value)
            case "arith.index_cast" | "arith.extsi":
                return self.bound(owner.operands[0])
            case "arith.addi" | "arith.subi":
                sides = [self.bound(operand) for operand in owner.operands]
                return None if None in sides else sum(side for side in sides if side is not None)
        return None

    def _bound(self, e: Expr) -> int | None:
        e = e.maybe_downcast()
        if isinstance(e, ir.AffineConstantExpr):
            return abs(e.value)
        if isinstance(e, ir.AffineDimExpr):
            return self._extent(e.position)
        if not isinstance(e, ir.AffineBinaryExpr):
            return None
        one, other = self._bound(e.lhs), self._bound(e.rhs)
        if one is None or other is None:
            return None
        if isinstance(e, ir.AffineMulExpr):
            return one * other
        return one + other if isinstance(e, ir.AffineAddExpr) else max(one, other)

    def _simplified(self, e: Expr) -> Expr:
        """`e`, in which a quotient and its remainder may meet again."""
        if not _divides(e):
            return e
        if e not in self.simple:
            map_ = ir.AffineMap.get(self.atoms, symbol_count([e]), [e])
            self.simple[e] = self.simplifier(map_, [self.extents.get(atom) for atom in range(self.atoms)]).results[0]
        return self.simple[e]

    def _enter(self, op: ir.Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                if "ranges" in op.attributes:
                    sizes = op.attributes["ranges"].value.results
                    self.extents.update((self.of(index).position, size) for index, size in zip(block.arguments, sizes))
                self._visit(block)

    def _visit(self, block: ir.Block) -> None:
        for argument in block.arguments:
            self.of(argument)
        for view in block.operations:
            op = view.operation
            if op.name in ACCESSES:
                address = self.address(op)
                self.linear[op] = form = linear(address)
                self.forms.append(form)
                self.parts[op] = start, rest = _started(address, form)
                self.starts.setdefault((op.operands[ACCESSES[op.name] - 1], rest), set()).add(start)
            elif not self._symbolic(op):
                self.forms += [linear(self.of(v)) for v in op.operands if isinstance(v.type, ir.IndexType)]
            self._enter(op)

    def _symbolic(self, op: ir.Operation) -> bool:
        """Whether `op` is index arithmetic that stays affine."""
        if len(op.results) != 1 or not isinstance(op.results[0].type, ir.IndexType):
            return False
        if op.name == "affine.apply":
            map_ = op.attributes["map"].value
            operands = [self.of(v) for v in op.operands]
            e = substitute(map_.results[0], operands[: map_.n_dims], operands[map_.n_dims :])
        elif op.name == "arith.constant":
            e = expr(op.attributes["value"].value)
        elif op.name in ("arith.addi", "arith.subi", "arith.muli"):
            x, y = (self.of(v) for v in op.operands)
            if op.name == "arith.muli" and dims_of(x) and dims_of(y):
                return False
            e = expr(x * y if op.name == "arith.muli" else x + y if op.name == "arith.addi" else x + y * -1)
        else:
            return False
        self.known[op.results[0]] = e
        return True

    def groups(self, arguments: Sequence[ir.Value], sizes: Sequence[Expr]) -> Iterator[tuple[list[int], Expr]]:
        """A loop's indices as few groups, outermost first: (atoms, size). All uses see the indices of a group as one flat index:
        the group's last atom takes it, and the others are 0."""
        group: list[int] = []
        size = expr(1)
        for argument, extent in zip(arguments, sizes):
            atom = self.of(argument).position
            if constant(extent) == 1:
                group.insert(0, atom)
            elif constant(size) == 1 or all(form.flat(group[-1], atom, extent) for form in self.forms):
                group.append(atom)
                size = expr(size * extent)
            else:
                yield group, size
                group, size = [atom], extent
        yield group, size


def stored(type_: ir.MemRefType) -> ir.Type:
    """The element type in memory: signless, a byte for a boolean and for a float of 8 bits, the bits of a complex number, of 128 two words."""
    scalar = carried(type_.element_type)
    if is_pair(scalar):
        return ir.IntegerType.get_signless(64)
    byte = scalar == ir.IntegerType.get_signless(1) or isinstance(scalar, FLOAT8)
    return ir.IntegerType.get_signless(8) if byte else scalar
