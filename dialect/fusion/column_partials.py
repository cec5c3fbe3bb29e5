"""Partial sums of columns in the kernel of the rows they are computed from: which groups join, and how the kernel is written."""

from collections.abc import Iterator

from ..analysis.affine.indexing import Indexing, digits_of
from ..analysis.bodies.body_tree import indices_of
from ..analysis.bodies.costs import TRANSCENDENTAL, tensor_bytes
from ..ir.loop_ops import ForeachOp, KernelOp
from ..ir.regions import end_of
from ..ir.shapes import constant
from ..ir.types import STORED
from ..mlir import ir
from .chunk_sizes import Chunks
from .group_records import Beside, Group, not_fused
from .kernel_assembly import Assembler, Destinations
from .kernel_groups import Grouping
from .members import Digits, Member, Pattern, pairs


def join_partials(grouping: Grouping, indexing: Indexing, least: int) -> None:
    """Puts groups of partial results beside groups of rows, where both read the same `least` bytes; a refusal is a remark of the partial
    results."""
    for number, group in enumerate(grouping.groups):
        if group is not None and (chunks := _chunks(group)) is not None:
            _join(grouping, indexing, (number, group, chunks), least)


def _chunks(group: Group) -> Chunks | None:
    """How the rows are cut, if the group consists of partial results of one cut."""
    found = {member.chunks for member in group.members}
    (chunks,) = found if len(found) == 1 else (None,)
    if chunks is None or not chunks.exact or not group.columns or max(chunks.inner) == 1:
        return None
    plain = all(len(m.body.loops) == 1 and m.row_dims == m.long_dims for m in group.members)
    return chunks if plain else None


def _join(grouping: Grouping, indexing: Indexing, partial: tuple[int, Group, Chunks], least: int) -> None:
    number, group, _ = partial
    shared: dict[int, dict[ir.Value, int]] = {}  # group of rows -> what both read or one makes -> bytes
    for source in {source for member in group.members for source in member.operands}:
        others = [*grouping.readers.get(source, ()), *([grouping.of[source]] if source in grouping.of else [])]
        for other in others:
            host = grouping.groups[other]
            if other != number and host is not None and host.members[0].fuses and host.members[0].chunks is None:
                shared.setdefault(other, {})[source] = tensor_bytes(source)
    refusals = []
    for other in sorted(shared, key=lambda n: (-sum(shared[n].values()), n)):
        cost = sum(shared[other].values())
        if cost < least:
            break
        host = grouping.group(other)
        fit = _fit(grouping, indexing, partial, (other, host), shared[other])
        if isinstance(fit, Beside):
            _put(grouping, number, other, fit)
            return
        refusals.append(not_fused(group.members[-1].body.op, host.members[-1].body.op, fit, cost))
    group.remarks += refusals[:1]


def _fit(grouping: Grouping, indexing: Indexing, partial: tuple, host: tuple, shared: dict) -> Beside | str:
    (number, group, chunks), (other, rows) = partial, host
    if grouping.dependencies.depends(other, number) or grouping.dependencies.between(other, number):
        return "another kernel stands between them"
    if group.written.ops + rows.written.ops > grouping.max_ops or len({*group.reads, *rows.reads}) > grouping.max_reads:
        return "too large for one kernel"
    again = list(_recomputed(grouping, group, other))
    if any(member.reduces for member in again):
        return "sums columns of what the rows' own reductions give"
    # A GPU walks the rows and the columns of a pointwise kernel together: what both take of an element is computed once.
    together = grouping.busy and not rows.reduces
    if not together and sum(member.body.cost for member in again) >= TRANSCENDENTAL:
        return "sums columns of what is costly to compute again"
    found, columns = _rows_along(grouping, indexing, partial, host, shared)
    ranges = chunks.ranges
    if any(size != 1 and (k not in found or constant(rows.rows[found[k]]) != size) for k, size in enumerate(ranges)):
        return "reads it along other rows"
    taken = [found[k] for k, size in enumerate(ranges) if size != 1]
    rest = set(range(len(rows.rows))) - set(taken)
    long = set(group.members[0].long_dims[sum(size != 1 for size in chunks.outer) :])
    if rest and (rest != set(columns) or set(columns.values()) != long or rows.reduces):
        return "the rows have other dims too"
    fit = Beside(chunks, tuple(found.get(k) if size != 1 else None for k, size in enumerate(ranges)), {}, [group])
    if rest:
        fit.columns = columns
    known = rows.beside
    if known is not None and (known.chunks, known.rows, known.columns) != (fit.chunks, fit.rows, fit.columns):
        return "other sums of columns in its kernel are cut otherwise"
    return fit


def _rows_along(
    grouping: Grouping, indexing: Indexing, partial: tuple, host: tuple, shared: dict
) -> tuple[dict[int, int], dict[int, int]]:
    """The host's rows that run along ranges of the whole reduction, and those that are dims of the partial results, by the largest tensor of
    `shared` that tells any: one may be read in another order than along rows."""
    (_, group, chunks), (other, rows) = partial, host
    found, columns = dict[int, int](), dict[int, int]()
    for source in sorted(shared, key=lambda value: -shared[value]):
        along = _rows_of(grouping, rows, other, source)
        member = next(member for member in group.members if source in member.operands)
        for place, row in pairs(_places(indexing, member, chunks, source), along):
            if place is not None and row is not None:
                if place >= 0:
                    found[place] = row
                else:
                    columns[row] = -1 - place
        if found:
            break
    return found, columns


def _recomputed(grouping: Grouping, group: Group, other: int) -> Iterator[Member]:
    """The members of group `other` that the partial results are computed from."""
    todo = [source for member in group.members for source in member.operands]
    seen: set[ir.Value] = set()
    while todo:
        source = todo.pop()
        if source not in seen and grouping.of.get(source) == other:
            seen.add(source)
            yield grouping.members[source]
            todo += grouping.members[source].operands


def _rows_of(grouping: Grouping, group: Group, number: int, source: ir.Value) -> Pattern:
    """For each dim of a tensor that the group makes or reads, the rows that index it."""
    if grouping.of.get(source) != number:
        return group.reads[source]
    return grouping.members[source].result_rows


def _places(indexing: Indexing, member: Member, chunks: Chunks, source: ir.Value) -> Pattern:
    """For each dim of `source`, by what partial results index it: range k of the whole reduction is k, dim d of their domain is -1 - d."""
    read = next(read for read, _ in member.patterns if read.buffer == source)
    inner = indices_of(member.body.loops[0].op)
    outer = member.body.op.regions[0].blocks[0].arguments
    number: dict[ir.Value, int] = {value: -1 - d for d, value in enumerate(outer)}
    number.update({value: k for k, value in enumerate(list(outer)[: chunks.split])})
    number.update({value: chunks.split + i for i, value in enumerate(inner)})
    chunk = outer[chunks.split]
    places = []
    for values in digits_of(list(read.op.operands)[1:], source.type, indexing):
        found: list[int | None] = []
        for i, value in enumerate(values):
            follows = i + 1 < len(values) and values[i + 1] == inner[0]
            if value == chunk and chunks.size != 1:
                if not follows:  # otherwise the place in the chunk stands for both
                    found.append(None)
            elif value == inner[0] and (i == 0 or values[i - 1] != chunk) and chunks.count != 1:
                found.append(None)
            else:
                found.append(chunks.split if value == chunk else number.get(value))
        places.append(Digits.of(found))
    return tuple(places)


def _put(grouping: Grouping, number: int, other: int, fit: Beside) -> None:
    group, host = grouping.group(number), grouping.group(other)
    for member in group.members:
        for read in member.body.reads:
            if grouping.of.get(read.buffer) == other and grouping.members[read.buffer].body.cost >= TRANSCENDENTAL:
                _sum_as_stored(read.op)
    if host.beside is None:
        host.beside = fit
    else:
        host.beside.partials.append(group)
    grouping.absorb(other, number)


def _sum_as_stored(read: ir.Operation) -> None:
    """Has partial results sum what is stored: a number that is not rounded would be computed again, more precisely."""
    for use in read.results[0].uses:
        if use.owner.operation.name == "arith.extf":
            use.owner.operation.attributes[STORED] = ir.UnitAttr.get()


# -- writing ------------------------------------------------------------------------------------------------------------


def write_chunked(group: Group, entry: ir.Block, destinations: Destinations, assembler: Assembler) -> ir.Operation:
    """The kernel of `group` and of the partial results beside it, over the chunks (and columns)."""
    beside, indexing = group.beside, assembler.indexing
    assert beside is not None
    chunks, first = beside.chunks, beside.partials[0]
    dims = first.members[0].long_dims
    kept = [r for r, dim in enumerate(dims) if beside.columns or dim < len(chunks.outer)]
    sizes = [first.rows[r] for r in kept]
    kernel, point = assembler.loop(KernelOp, sizes, ir.InsertionPoint(entry))
    domain = {dims[r]: index for r, index in zip(kept, point.arguments)}
    # Over the ranges of the partial results, those of one point too: loops over equal ranges can be walked together.
    inner = [ir.AffineExpr.get_constant(size) for size in chunks.inner]
    _, body = assembler.loop(ForeachOp, inner, ir.InsertionPoint(end_of(point)))
    within = dict(enumerate(body.arguments))
    with ir.InsertionPoint(end_of(body)), body.owner.location:
        places = [_place(k, chunks, domain, within, indexing) for k in range(len(chunks.ranges))]
    rows = {row: place for row, place in zip(beside.rows, places) if row is not None}
    rows.update({row: domain[dim] for row, dim in beside.columns.items()})
    assembler.write(group, body, destinations, [rows[r] for r in range(len(group.rows))])
    for partial in beside.partials:
        partial.narrow(kept)
        assembler.write(partial, point, destinations, others=group.members)
    return kernel


def _place(
    k: int, chunks: Chunks, domain: dict[int, ir.Value], within: dict[int, ir.Value], indexing: Indexing
) -> ir.Value:
    """The index along range k of the whole reduction, for the chunk at a point of the domain and a row in it."""
    dim, zero = ir.AffineExpr.get_dim, ir.AffineExpr.get_constant(0)
    if k < chunks.split:
        return domain[k] if k in domain else indexing.build((zero, ()))
    if k > chunks.split:
        return within[k - chunks.split] if chunks.ranges[k] != 1 else indexing.build((zero, ()))
    terms = [(domain[k], chunks.size)] if k in domain else []
    terms += [(within[0], 1)] if chunks.size != 1 else []
    expression = sum((dim(i) * factor for i, (_, factor) in enumerate(terms)), zero)
    return indexing.build((expression.maybe_downcast(), tuple(value for value, _ in terms)))
