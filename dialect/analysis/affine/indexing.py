"""Index values of regions as affine expressions: what an `index` is in terms of block indices, and building it simplified."""

from collections.abc import Sequence

from ...ir.attribute_names import TAIL
from ...ir.shapes import Size, constant, expr, symbol_count
from ...mlir import affine, arith, ir
from .simplification import Simplifier

# An index value: an affine expression whose dims are the base values of the tuple (block indices, or data-dependent indices).
Index = tuple[ir.AffineExpr, tuple[ir.Value, ...]]


class Indexing:
    """Resolves and builds index values inside the regions of one function.

    `extents` are known from the blocks passed to `enter`. Values are remembered, so a value must not be erased
    while an `Indexing` that has seen it lives, unless nothing asks for it again.
    """

    def __init__(self, symbols: Sequence[ir.Value], simplifier: Simplifier):
        self.symbols = list(symbols)
        self.simplifier = simplifier
        self._resolved: dict[ir.Value, Index] = {
            symbol: (ir.AffineExpr.get_symbol(i), ()) for i, symbol in enumerate(symbols)
        }
        self._extents: dict[ir.Value, Size] = {}
        self._single = ir.AffineExpr.get_dim(0)

    def enter(self, loop: ir.Operation) -> None:
        """Learns the extents of the indices of a loop op (whatever has `ranges`)."""
        arguments = loop.regions[0].blocks[0].arguments
        for argument, size in zip(arguments, loop.attributes["ranges"].value.results):
            self._extents[argument] = size

    def extent(self, value: ir.Value) -> Size | None:
        """One more than the largest number that an index is, if that is known, and it is never negative."""
        if value not in self._extents and not isinstance(value.owner, ir.Block) and TAIL in value.owner.attributes:
            last, symbols = self.resolve(value.owner.operands[1])
            if not symbols:
                self._extents[value] = expr(last + 1)
        return self._extents.get(value)

    def resolve(self, value: ir.Value) -> Index:
        """`value` as a simplified expression of base values."""
        found = self._resolved.get(value)
        if found is not None:
            return found
        owner = value.owner
        result: Index = (self._single, (value,))
        if not isinstance(owner, ir.Block):
            op = owner.operation
            if op.name == "affine.apply":
                ((result),) = self.at(op.attributes["map"].value, list(op.operands))
            elif op.name == "arith.constant":
                result = (ir.AffineExpr.get_constant(op.attributes["value"].value), ())
        elif _is_one(self.extent(value)):
            result = (ir.AffineExpr.get_constant(0), ())
        self._resolved[value] = result
        return result

    def at(self, map_: ir.AffineMap, arguments: Sequence[ir.Value]) -> list[Index]:
        """The results of `map_` at index values, each simplified.

        `arguments` are the values of the map's dims, then of its symbols; without the latter, sK is the function's K-th symbol.
        """
        if len(arguments) > map_.n_dims and arguments[map_.n_dims :] != self.symbols[: map_.n_symbols]:
            map_ = _symbols_as_dims(map_)  # canonicalization renumbers the symbols of an apply
        bases: dict[ir.Value, int] = {}
        inner = []
        for argument in arguments[: map_.n_dims]:
            expression, values = self.resolve(argument)
            inner.append((expression, *(bases.setdefault(v, len(bases)) for v in values)))
        values = tuple(bases)
        found = self.simplifier.composed(map_, tuple(inner), tuple(map(self.extent, values)))
        return [(expression, tuple(values[i] for i in places)) for expression, places in found]

    def is_simplest(self, apply: ir.Operation) -> bool:
        """Whether an `affine.apply` already is what `build` would make of it."""
        expression, values = self.resolve(apply.results[0])
        map_ = apply.attributes["map"].value
        return (
            map_.n_dims == len(values)
            and list(apply.operands)[len(values) :] == self.symbols[: map_.n_symbols]
            and map_.results[0] == expression
            and not isinstance(expression, ir.AffineDimExpr | ir.AffineConstantExpr)
            and list(apply.operands)[: len(values)] == list(values)
        )

    def build(self, index: Index) -> ir.Value:
        """A value of `index` at the current insertion point; a base value costs no op."""
        expression, values = index
        if isinstance(expression, ir.AffineDimExpr):
            return values[expression.position]
        if isinstance(expression, ir.AffineConstantExpr):
            value = arith.constant(ir.IndexType.get(), expression.value)
        else:
            used = self.symbols[: symbol_count([expression])]
            value = affine.apply(ir.AffineMap.get(len(values), len(used), [expression]), [*values, *used])
        self._resolved[value] = index
        return value


def digits(index: Index, indexing: Indexing) -> tuple[ir.Value, ...] | None:
    """The base values of an index that counts through their extents, the last one fastest: of `i * 256 + j` with j < 256, (i, j).

    None for any other index; a constant has no digits.
    """
    expression, values = index
    steps: list[tuple[int, ir.Value]] = []
    todo = [expression]
    while todo:
        e = todo.pop()
        if isinstance(e, ir.AffineAddExpr):
            todo += [e.lhs, e.rhs]
        elif isinstance(e, ir.AffineDimExpr):
            steps.append((1, values[e.position]))
        elif (
            isinstance(e, ir.AffineMulExpr)
            and isinstance(e.lhs, ir.AffineDimExpr)
            and isinstance(e.rhs, ir.AffineConstantExpr)
        ):
            steps.append((e.rhs.value, values[e.lhs.position]))
        else:
            return None
    steps.sort(key=lambda step: step[0])
    if not steps or len({value for _, value in steps}) < len(steps):
        return None
    expected = 1
    for number, (step, value) in enumerate(steps):
        if step != expected:
            return None
        size = indexing.extent(value)
        known = None if size is None else constant(expr(size))
        if known is None and number < len(steps) - 1:
            return None
        expected *= known or 0
    return tuple(value for _, value in reversed(steps))


def digits_of(indices: Sequence[ir.Value], type_: ir.Type, indexing: Indexing) -> list[tuple[ir.Value, ...]]:
    """The `digits` of each index of a read of a tensor of `type_`, empty where there are none. Where a dim and the next are at the quotient and
    the remainder of one index, or of what counts through several, both have the digits of that."""
    found = [digits(indexing.resolve(index), indexing) or () for index in indices]
    for k in range(len(indices) - 1):
        if found[k] or found[k + 1] or type_.is_dynamic_dim(k + 1):
            continue
        d0, d1 = (ir.AffineExpr.get_dim(i) for i in range(2))
        joined = ir.AffineMap.get(2, 0, [d0 * type_.get_dim_size(k + 1) + d1])
        (index,) = indexing.at(joined, indices[k : k + 2])
        both = digits(index, indexing)
        if both is not None:
            found[k] = found[k + 1] = both
    return found


def _is_one(size: Size | None) -> bool:
    return isinstance(size, ir.AffineConstantExpr) and size.value == 1


def _symbols_as_dims(map_: ir.AffineMap) -> ir.AffineMap:
    dims = map_.n_dims + map_.n_symbols
    for k in range(map_.n_symbols):
        map_ = map_.replace(
            ir.AffineExpr.get_symbol(k), ir.AffineExpr.get_dim(dims - map_.n_symbols + k), dims, map_.n_symbols
        )
    return ir.AffineMap.get(dims, 0, list(map_.results))
