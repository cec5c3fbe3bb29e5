"""Writes what a `RowChunks` plans: the ops once for each chunk of rows, then the whole of what others read."""

from collections.abc import Sequence

from ..analysis.affine.simplification import Simplifier, compose
from ..analysis.bodies.backward_slice import captured
from ..analysis.memory.buffers import memref_type, strides
from ..ir import builders
from ..ir.attributes import LayoutAttr, OperandAttr, i64
from ..ir.functions import ARGUMENTS, EFFECTS, EXTERN, OUT, REASON, Externs
from ..ir.regions import op_in, ops_in
from ..ir.shapes import callee_of, index_map, layout_of, size_map, tensor_type
from ..ir.types import byte_width
from ..mlir import arith, ir, scf
from .chunk_sizes import ROW_CHUNK
from .row_chunks import NotChunked, RowChunks, RowPlan, shifted

ALL = -1  # for the number of a chunk: of what puts the chunks together


class ChunkedRows:
    """One plan being written. `pieces`: of each result that has rows, those of the chunks; `totals`: of each sum over rows, that of the chunks
    so far."""

    def __init__(self, plan: RowPlan, found: RowChunks, externs: Externs):
        self.plan, self.found, self.externs = plan, found, externs
        self.pieces: dict[ir.Value, list[ir.Value]] = {value: [] for value in found.dims}
        self.totals: dict[ir.Operation, ir.Value] = {}
        self.simplifier = Simplifier()

    def write(self) -> None:
        """Raises `NotChunked` before anything is changed."""
        last = self.found.ops[-1]
        later, uses = self._later(), [self._uses_outside(op) for op in self.found.ops]
        with ir.InsertionPoint(last):
            for number in range(self.found.count):
                for op in self.found.ops:
                    with op.location:
                        self._piece_of(op, number)
            for op, outside in zip(self.found.ops, uses):
                with op.location:
                    self._replace(op, outside)
        after = last
        for op in later:
            op.move_after(after)
            after = op
        for op in reversed(self.found.ops):
            op.erase()

    def _later(self) -> list[ir.Operation]:
        """The ops between that use what is whole only after the last chunk."""
        chosen, found = set(self.found.ops), list[ir.Operation]()
        read = {value for op in self.found.ops for value in captured(op)}
        places = self.plan.places
        waiting = {reader for op in self.found.ops for reader in self.plan.readers[op]} - chosen
        for op in self.plan.ops[places[self.found.ops[0]] : places[self.found.ops[-1]]]:
            acts = op.name == "bascule.copy_into" or (op.name == "func.call" and EFFECTS in callee_of(op).attributes)
            if acts and (op in waiting or not read.isdisjoint(op.operands)):
                raise NotChunked("an effect stands between its readers")
            if op in waiting and op not in chosen:
                found.append(op)
                waiting.update(self.plan.readers[op])
        return found

    def _part(self, value: ir.Value, number: int) -> tuple[int, int]:
        """Where the chunk of a result that has rows begins and ends."""
        bounds = self.found.bounds(value.type.shape[self.found.dims[value]])
        return bounds[number], bounds[number + 1]

    def _piece_of(self, op: ir.Operation, number: int) -> None:
        if op.name == "bascule.view":
            self._view(op, number)
        elif op.name == "bascule.compute":
            self._compute(op, number)
        elif op in self.found.sums:
            self._add(op, number)
        else:
            self._product(op, number)

    # Views and computes

    def _view(self, op: ir.Operation, number: int) -> None:
        source, (result,) = op.operands[0], op.results
        dim, rows = self.found.dims[result], self.found.dims[source]
        (low, high), (first, _) = self._part(result, number), self._part(source, number)
        sizes = self._sizes(result, high - low)
        moved = shifted(len(sizes), dim, low)
        map_ = compose(op.attributes["map"].value, index_map(len(sizes), moved))
        indices = [each - first if k == rows else each for k, each in enumerate(map_.results)]
        map_ = self.simplifier(index_map(len(sizes), indices), sizes)
        piece = self.pieces[source][number]
        self.pieces[result].append(self._seen(piece, map_, sizes))

    def _seen(self, source: ir.Value, map_: ir.AffineMap, sizes: Sequence[int]) -> ir.Value:
        """A view that shares the memory of `source`, whatever it sees there."""
        layout = self.simplifier(compose(layout_of(source.type), map_), list(sizes))
        type_ = ir.RankedTensorType.get(list(sizes), source.type.element_type)
        steps = strides(memref_type(_laid(type_, layout)))
        return builders.view(source, map_, sizes, tensor_type(sizes, type_.element_type, steps))

    def _compute(self, op: ir.Operation, number: int) -> None:
        (result,) = op.results
        dim, (low, high) = self.found.dims[result], self._part(result, number)
        sizes = self._sizes(result, high - low)
        copy = op.clone().operation
        block = copy.regions[0].blocks[0]
        argument = block.arguments[dim]
        with ir.InsertionPoint.at_block_begin(block):
            (place,) = (
                builders.apply(index_map(1, [ir.AffineExpr.get_dim(0) + low]), [argument], []) if low else [argument]
            )
        if low:
            argument.replace_all_uses_except(place, [place.owner.operation])
        for inner in ops_in(copy):
            for operand, value in enumerate(inner.operands):
                if value in self.found.dims:
                    self._read(inner, operand, value, number)
        attributes = {name: op.attributes[name] for name in op.attributes}
        attributes |= {"ranges": ir.AffineMapAttr.get(size_map(sizes)), ROW_CHUNK: i64(number)}
        type_ = tensor_type(sizes, result.type.element_type)
        made = ir.Operation.create(op.name, results=[type_], attributes=attributes, regions=1)
        block.append_to(made.regions[0])
        copy.erase()
        self.pieces[result].append(made.results[0])

    def _read(self, read: ir.Operation, operand: int, value: ir.Value, number: int) -> None:
        """Has `read` look at the piece, at an index in it."""
        first, _ = self._part(value, number)
        place = operand + 1 + self.found.dims[value]
        if first:
            with ir.InsertionPoint(read):
                (inside,) = builders.apply(index_map(1, [ir.AffineExpr.get_dim(0) - first]), [read.operands[place]], [])
            read.operands[place] = inside
        read.operands[operand] = self.pieces[value][number]

    # Products

    def _product(self, call: ir.Operation, number: int) -> None:
        (result,) = call.results
        low, high = self._part(result, number)
        self.pieces[result].append(self._call(call, number, self._sizes(result, high - low)))

    def _call(self, call: ir.Operation, number: int, sizes: Sequence[int]) -> ir.Value:
        """The product of a chunk of the rows."""
        function = callee_of(call)
        operands = self._operands(call, number)
        texts = {
            key: function.attributes[name].value
            for key, name in (("reason", REASON), ("out", OUT))
            if name in function.attributes
        }
        callee, arguments = function.attributes[EXTERN].value, list(function.attributes[ARGUMENTS])
        type_ = tensor_type(sizes, call.results[0].type.element_type)
        (made,) = self.externs.call(callee, arguments, operands, [type_], **texts)
        return _marked(made, number)

    def _operands(self, call: ir.Operation, number: int) -> list[ir.Value]:
        """A factor that has rows is the piece, one that is made of nothing cut, but is summed over them, is seen from the chunk's first on."""
        factors, operands = RowPlan.factors(call), list(call.operands)
        assert factors is not None
        dims = [self.found.dims.get(operands[k]) for k in factors]
        for place, (k, dim) in enumerate(zip(factors, dims)):
            if dim is not None:
                operands[k] = self.pieces[operands[k]][number]
            elif call in self.found.sums:
                operands[k] = self._sliced(operands[k], 1 - place, number)
            elif dims == [None, None] and place == 0:
                operands[k] = self._sliced(operands[k], 0, number)
        return operands

    def _sliced(self, value: ir.Value, dim: int, number: int) -> ir.Value:
        sizes = list(value.type.shape)
        bounds = self.found.bounds(sizes[dim])
        sizes[dim] = bounds[number + 1] - bounds[number]
        return self._seen(value, index_map(len(sizes), shifted(len(sizes), dim, bounds[number])), sizes)

    def _add(self, call: ir.Operation, number: int) -> None:
        """Adds the sum over the rows of this chunk to that of the chunks before, in f32 at least."""
        sizes = list(call.results[0].type.shape)
        element = call.results[0].type.element_type
        total = self.totals.get(call)
        if byte_width(element) >= 4 and total is not None:
            function = callee_of(call)
            arguments = [*(OperandAttr.get(i64(k)) for k in range(3)), i64(1), i64(1)]
            operands = [total, *self._operands(call, number)]
            reason = function.attributes[REASON].value if REASON in function.attributes else None
            type_ = tensor_type(sizes, element)
            (total,) = self.externs.call(
                "aten.addmm.default", arguments, operands, [type_], reason=reason, out="aten.addmm.out"
            )
            self.totals[call] = _marked(total, number)
            return
        part = self._call(call, number, sizes)
        if byte_width(element) >= 4:
            self.totals[call] = part
            return
        wide = ir.F32Type.get()

        def added(at: list[ir.Value]) -> ir.Value:
            value = arith.extf(wide, builders.read(part, at))
            return value if total is None else arith.addf(builders.read(total, at), value)

        self.totals[call] = _marked(builders.compute(tensor_type(sizes, wide), sizes, added), number)

    # The whole

    def _uses_outside(self, op: ir.Operation) -> list[tuple[ir.Operation, int]]:
        """The uses of its result by other ops than those of the plan, as op and operand. Asked before any op changes: a changed op has another
        hash."""
        found = []
        for use in op.results[0].uses:
            if op_in(op.block, use.owner.operation) not in self.found.ops:
                found.append((use.owner.operation, use.operand_number))
        return found

    def _replace(self, op: ir.Operation, outside: Sequence[tuple[ir.Operation, int]]) -> None:
        if not outside:
            return
        whole = self._rounded(op) if op in self.found.sums else self._joined(op.results[0])
        for user, operand in outside:
            user.operands[operand] = whole

    def _rounded(self, call: ir.Operation) -> ir.Value:
        total, element = self.totals[call], call.results[0].type.element_type
        if total.type.element_type == element:
            return total
        sizes = list(call.results[0].type.shape)
        rounded = builders.compute(
            tensor_type(sizes, element), sizes, lambda at: arith.truncf(element, builders.read(total, at))
        )
        return _marked(rounded, self.found.count - 1)

    def _joined(self, value: ir.Value) -> ir.Value:
        """The pieces of all chunks as one tensor."""
        dim, sizes = self.found.dims[value], list(value.type.shape)
        bounds = self.found.bounds(sizes[dim])

        def element(at: list[ir.Value], number: int) -> ir.Value:
            moved = list(at)
            (moved[dim],) = builders.apply(index_map(1, [ir.AffineExpr.get_dim(0) - bounds[number]]), [at[dim]], [])
            return builders.read(self.pieces[value][number], moved)

        def from_piece(at: list[ir.Value], number: int) -> ir.Value:
            if number == self.found.count - 1:
                return element(at, number)
            end = arith.constant(ir.IndexType.get(), bounds[number + 1])
            inside = arith.cmpi(arith.CmpIPredicate.slt, at[dim], end)
            chosen = scf.IfOp(inside, [value.type.element_type], has_else=True)
            with ir.InsertionPoint(chosen.then_block):
                scf.YieldOp([element(at, number)])
            with ir.InsertionPoint(chosen.else_block):
                scf.YieldOp([from_piece(at, number + 1)])
            return chosen.results[0]

        return _marked(builders.compute(value.type, sizes, lambda at: from_piece(at, 0)), ALL)

    # Small parts

    def _sizes(self, value: ir.Value, rows: int) -> list[int]:
        return [rows if k == self.found.dims[value] else size for k, size in enumerate(value.type.shape)]


def _marked(value: ir.Value, number: int) -> ir.Value:
    value.owner.attributes[ROW_CHUNK] = i64(number)
    return value


def _laid(type_: ir.RankedTensorType, layout: ir.AffineMap) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(type_.shape, type_.element_type, LayoutAttr.get(ir.AffineMapAttr.get(layout)))
