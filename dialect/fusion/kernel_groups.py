"""Which computes share a kernel: how they are put into groups over common rows, and the reasons for what stays apart."""

from collections.abc import Iterable, Iterator

from ..analysis.bodies.body_summary import Access
from ..analysis.bodies.costs import magnitude, tensor_bytes
from ..errors import UserError
from ..ir.attribute_names import TOGETHER, TOGETHER_DIMS
from ..ir.locations import source_of
from ..machines.measures import value
from ..mlir import ir
from ..remarks.record import Remark
from ..steering.asking import is_steered, may_fuse, name_of_hooks
from ..steering.hooks import Fusion
from .cycle_check import Dependencies
from .group_records import Fit, Group, WrittenOps, chunks_of_rows, not_fused
from .members import NO_DIM, Digits, Member, Pattern, pairs
from .own_work import BYTE

FEW_ROWS = value("cuda", "idle_rows")  # fewer rows than this leave processors idle ...
LONG_ROW = value("cuda", "idle_row")  # ... if each has more elements than this
LANES = 64  # points along memory that one piece of work on a GPU computes together
SMALL = value("cuda", "launch_elements")  # elements for which a launch more costs more than idle processors
MANY_ROWS = value(
    "cuda", "busy_rows"
)  # from these on, a loop at each row of a group that reduces nothing keeps a GPU busy
LONG_COLUMN = 1 << 12  # elements of a column that a tile of columns still keeps in a cache
LITTLE = value("cuda", "partial_sums")  # bytes of partial results, which one launch sums as fast as two
SHARED = 1 << 10  # bytes of a tensor that are worth reading once for two computes that do not depend on each other


class Grouping:
    """Puts members, in program order, into groups, between which no cycle arises."""

    def __init__(self, max_reads: int, max_ops: int, busy: int = 0):
        self.max_reads, self.max_ops = max_reads, max_ops
        self.busy = busy  # pieces of work that keep the machine busy
        self.groups: list[Group | None] = []  # None: merged into another, or an op that is no member
        self.dependencies = Dependencies()  # of the groups, by number
        self.of: dict[ir.Value, int] = {}  # group of a value
        self.members: dict[ir.Value, Member] = {}
        self.readers: dict[ir.Value, list[int]] = {}  # groups that read a value from outside
        self.together: dict[int, Member] = {}  # the first compute of each number by which computes are put together
        self.effect: int | None = None  # the last call with effects so far

    def _node(self, group: Group | None) -> int:
        self.groups.append(group)
        return self.dependencies.add()

    def group(self, number: int) -> Group:
        """The group of a number: of one that no other has taken in."""
        group = self.groups[number]
        assert group is not None, f"{number} is no group, or one that another has taken in"
        return group

    def add_other(self, op: ir.Operation, acts: bool) -> None:
        """An op that is no member: a call, a view, a copy. If it `acts`, it comes after the last one that does."""
        number = self._node(None)
        needed = {self.of[operand] for operand in op.operands if operand in self.of}
        if acts:
            if self.effect is not None:
                needed.add(self.effect)
            self.effect = number
        self.dependencies.depend(number, needed)
        for result in op.results:
            self.of[result] = number

    # -- members ----------------------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Puts a member into the best group that takes it, or into one of its own."""
        sources = [read for read in member.operands if read in self.of]
        init = [operand for operand in member.body.op.operands if operand in self.of]
        needed = {self.of[source] for source in [*sources, *init]}
        refusals: list[Remark] = []
        joined = self._together(member, needed)
        if member.fuses and joined is None:
            for number, links in self._candidates(member, needed):
                group = self.group(number)
                fit = self._fit(member, group, number, links, needed - {joined})
                if isinstance(fit, Fit):
                    if joined is None:
                        self._join(member, number, fit, needed)
                        joined = number
                    elif number in needed:
                        self._merge(joined, number, member, fit)
                elif number in needed:
                    refusals.append(fit)
        if joined is None:
            joined = self._node(Group(0, [member.sizes[d] for d in member.long_dims]))
            group = self.group(joined)
            group.number, group.columns = joined, member.reduces and member.reduces_columns()
            self._enter(member, joined, needed)
        self.group(joined).remarks += refusals

    def _together(self, member: Member, needed: set[int]) -> int | None:
        """The group that `member` is put into by what it is marked with: that of the first compute of that mark, which stays as it is."""
        if TOGETHER not in member.body.op.attributes:
            return None
        first = self.together.setdefault(member.body.op.attributes[TOGETHER].value, member)
        if first is member:
            return None
        number = self.of[first.result]
        attributes, dims = member.body.op.attributes, list(range(len(member.sizes)))
        if TOGETHER_DIMS in attributes:
            dims = list(attributes[TOGETHER_DIMS])
        if len(dims) > len(first.sizes):
            told = f"'{member.body.op.name}' of {len(dims)} dims shares '{TOGETHER}' with one of {len(first.sizes)} above it"
            raise UserError(
                told, location=source_of(member.body.op.location), hint="the first has all indices of the others"
            )
        same = [dim for dim, place in enumerate(dims) if member.sizes[place] == first.sizes[dim]]
        member.row_dims = tuple(dims[dim] if dim in same else NO_DIM for dim in first.row_dims)
        self._enter(member, number, needed - {number})
        return number

    def _enter(self, member: Member, number: int, needed: set[int]) -> None:
        group = self.group(number)
        group.members.append(member)
        group.ops += member.body.ops
        group.written.add(member, member.row_dims)
        group.note_reads(member)
        self.of[member.result] = number
        self.members[member.result] = member
        self.dependencies.depend(number, needed)
        for source in member.operands:
            readers = self.readers.setdefault(source, [])
            if not readers or readers[-1] != number:
                readers.append(number)

    def _join(self, member: Member, number: int, fit: Fit, needed: set[int]) -> None:
        group = self.group(number)
        if len(fit.kept) < len(group.rows):
            group.narrow(fit.kept)
        member.row_dims = fit.row_dims
        if member.reduces and not group.reduces:
            group.columns = member.reduces_columns()
        self._enter(member, number, needed)

    def _merge(self, number: int, other: int, member: Member, fit: Fit) -> None:
        """Takes group `other` into `number`, where `member` runs over the same rows as both."""
        group, guest = self.group(number), self.group(other)
        if group.shares or guest.shares or len(chunks_of_rows([*group.members, *guest.members])) > 1:
            return
        if set(fit.row_dims) != set(member.row_dims) and not (
            set(fit.row_dims) > set(member.row_dims) and not guest.reduces
        ):
            return
        if group.columns != guest.columns and group.reduces and guest.reduces:
            return
        if group.is_measured and guest.is_measured:
            return
        if len({*group.reads, *guest.reads}) > self.max_reads:
            return
        if any(m.lays and m.result in {*group.reads, *guest.reads} for m in (*group.members, *guest.members)):
            return
        # The guest's row for each of the group's.
        order = [fit.kept[fit.row_dims.index(dim)] for dim in member.row_dims]
        guests = {m.result: tuple(m.row_dims[r] for r in order) for m in guest.members}
        narrowed = set(fit.row_dims) > set(member.row_dims)
        if self.busy and not narrowed and _parts_product([(m, guests[m.result]) for m in guest.members], group):
            return
        if self.dependencies.between(number, other) or self._reduced_at_other_rows(group, guest, order):
            return
        members = sorted([*group.members, *guest.members], key=lambda m: m.number)
        written = WrittenOps((m, guests.get(m.result, m.row_dims)) for m in members)
        if written.ops > self.max_ops:
            return
        guest.narrow(order)
        if guest.reduces and not group.reduces:
            group.columns = guest.columns
        group.members, group.written = members, written
        group.ops += guest.ops
        group.remarks += guest.remarks
        for m in guest.members:
            group.note_reads(m)
            self.of[m.result] = number
            for source in m.operands:
                self.readers[source].append(number)
        self.absorb(number, other)

    def _reduced_at_other_rows(self, group: Group, guest: Group, order: list[int]) -> bool:
        """Whether one of two groups reads what the other reduces at other rows than its own: each row would reduce all of them again."""
        rows = list(range(len(order)))
        for reading, theirs, made, ours in ((guest, order, group, rows), (group, rows, guest, order)):
            results = {m.result: m for m in made.members} if made.reduces else {}
            for reader in reading.members:
                for read, pattern in reader.patterns:
                    if (source := results.get(read.buffer)) is not None:
                        here = [Digits((reader.row_dims[r],)) for r in theirs]
                        if [pattern[source.row_dims[r]] for r in ours] != here:
                            return True
        return False

    def absorb(self, number: int, other: int) -> None:
        """Group `other` is in the kernel of group `number` from now on: what it needs and what needs it."""
        self.groups[other] = None
        self.dependencies.merge(number, other)

    def _candidates(self, member: Member, needed: set[int]) -> list[tuple[int, list[tuple[Pattern, Pattern]]]]:
        """Groups that the member might join, the largest saving first, each with the links between their dims.

        A link is (the member's dims that index a tensor, the group's rows that index it).
        """
        saved: dict[int, int] = {}
        links: dict[int, list[tuple[Pattern, Pattern]]] = {}
        for read, pattern in member.patterns:
            source = read.buffer
            owner = self.of.get(source)
            group = self.groups[owner] if owner is not None else None
            if owner is not None and group is not None and group.members[0].fuses:
                links.setdefault(owner, []).append((pattern, self.members[source].result_rows))
                saved[owner] = saved.get(owner, 0) + 2 * tensor_bytes(source)
        for source in member.operands:
            size = tensor_bytes(source)
            if size < SHARED:
                continue
            for number in self.readers.get(source, ())[-4:]:
                group = self.groups[number]
                if group is None or not group.members[0].fuses:
                    continue
                if number not in links:
                    pattern = next(p for read, p in member.patterns if read.buffer == source)
                    if all(row is None for digits in group.reads.get(source, ()) for row in digits.dims):
                        continue
                    links[number] = [(pattern, group.reads[source])]
                saved[number] = saved.get(number, 0) + size
        for number, link in self._twins(member):
            if number not in links:
                links[number], saved[number] = [link], 0
        order = sorted(links, key=lambda number: (number not in needed, -saved[number]))
        return [(number, links[number]) for number in order]

    def _twins(self, member: Member) -> Iterator[tuple[int, tuple[Pattern, Pattern]]]:
        """Where a launch costs more than idle processors: groups that reduce small results of a kernel which makes a like one for the member,
        as the sums of two partial results are, with the link between the two."""
        if not self.busy or not member.reduces:
            return
        for read, pattern in member.patterns:
            source = read.buffer
            owner = self.groups[self.of[source]] if source in self.of else None
            if owner is None or tensor_bytes(source) > LITTLE:
                continue
            for twin in owner.members:
                if twin.result == source or twin.result.type != source.type:
                    continue
                for number in self.readers.get(twin.result, ())[-4:]:
                    group = self.groups[number]
                    if group is not None and group.reduces and group.members[0].fuses and twin.result in group.reads:
                        yield number, (pattern, group.reads[twin.result])

    def _fit(self, member: Member, group: Group, number: int, links: list, needed: set[int]) -> Fit | Remark:
        chosen: list[int | None] = [None] * len(group.rows)
        dropped: set[int] = set()
        both = [source for source in member.operands if self.of.get(source) == number or source in group.reads]
        cost = sum(tensor_bytes(source) for source in both)  # what both would read once

        def refuse(reason: str) -> Remark:
            return not_fused(member.body.op, group.members[-1].body.op, reason, cost)

        for pattern, rows in links:
            for dim, row in pairs(pattern, rows):
                if row is None:
                    continue
                if dim is None:
                    dropped.add(row)
                elif chosen[row] is None:
                    chosen[row] = dim
                elif chosen[row] != dim:
                    return refuse("reads it at other rows")
        stays = {r: dim for r, dim in enumerate(chosen) if r not in dropped and dim is not None}
        kept, row_dims = list(stays), tuple(stays.values())
        if len(set(row_dims)) < len(row_dims):
            return refuse("reads it along a diagonal")
        here, there = _domain(member.sizes), _domain(group.rows)
        if len(kept) < len(group.rows) and not member.reduces:
            return refuse(f"reads part of it: domain {here} against {there}")
        if len(kept) < len(group.rows) and group.reduces:
            return refuse(f"reads it across its rows: domain {here} against {there}")
        if any(member.sizes[dim] != group.rows[r] for dim, r in zip(row_dims, kept)):
            return refuse(f"domain {here} against {there}")
        if _transposes(member, row_dims):
            return refuse(f"transposed: domain {here} against {there}")
        if member.reduces and set(row_dims) != set(member.long_dims):
            return refuse(f"reduces to a domain of {here} against {there}")
        if any(self.dependencies.depends(other, number) for other in needed):
            return refuse("another kernel stands between them")
        if any(self.members[source].lays for source in member.operands if self.of.get(source) == number):
            return refuse("pieces of what it reads are laid beside each other there")
        if len(chunks_of_rows([*group.members, member])) > 1:
            return refuse("another chunk of rows is let go before")
        if member.is_measured and group.is_measured:
            return refuse("each was measured as a kernel of its own")
        if self.busy and _parts_product([(member, row_dims)], group):
            return refuse("what tensor cores multiply there is all that the kernel's loops do")
        if self._written(member, group, row_dims, kept) > self.max_ops:
            return refuse(f"more than {self.max_ops} operations")
        if len({*group.reads, *member.operands}) > self.max_reads:
            return refuse(f"more than {self.max_reads} tensors read")
        refusal = self._unprofitable(member, group, row_dims, kept, both)
        if is_steered():
            refusal = _steered(member, group, cost, refusal)
        return Fit(row_dims, kept) if refusal is None else refuse(refusal)

    def _written(self, member: Member, group: Group, row_dims: tuple[int, ...], kept: list[int]) -> int:
        """The ops of the group's kernel if `member` joins it at the rows that it keeps."""
        written = group.written
        if len(kept) < len(group.rows):
            written = WrittenOps((m, tuple(m.row_dims[r] for r in kept)) for m in group.members)
        return written.with_member(member, row_dims)[0]

    def _unprofitable(
        self, member: Member, group: Group, row_dims: tuple[int, ...], kept: list[int], both: list[ir.Value]
    ) -> str | None:
        points = magnitude([group.rows[r] for r in kept])
        inner = max(member.body.points * member.body.steps, *(m.body.points * m.body.steps for m in group.members))
        each = inner // max(1, points)
        narrows = len(kept) < len(group.rows)
        splits = narrows or len(member.long_dims) > len(row_dims) or member.reduces or group.reduces
        if splits and points < FEW_ROWS and each > LONG_ROW:
            return f"rows to run in parallel: {points}, of {each} elements"
        if any(self._computes_again(member, read, group, kept) for read, _ in member.patterns):
            return "to compute its elements again costs more than to read them"
        longer = len(member.long_dims) > len(row_dims)
        units = points // LANES if group.columns else 2 * points
        if group.reduces and not group.columns and any(tensor_bytes(source) >= LONG_ROW * points for source in both):
            units = 4 * points  # few processors that read a row once more where another launch would read and write it
        if longer and not member.reduces and units < self.busy and points * each > SMALL:
            return f"a loop of {each} elements at each of {points} points leaves processors idle"
        if longer and not (member.reduces or group.reduces) and points < MANY_ROWS and each > LONG_ROW:
            return f"a loop of {each} elements at each of {points} rows, where nothing is reduced"
        columns = member.reduces_columns() if member.reduces else group.columns
        if group.reduces and member.reduces and columns != group.columns:
            return "one reduces rows, the other columns"
        if narrows and columns and inner > LONG_ROW:
            return f"reduces columns of a domain of {_domain(group.rows)} that is computed along rows"
        if not member.reduces and group.columns and len(member.long_dims) > len(row_dims) and each > LONG_COLUMN:
            return f"columns of {each} elements do not stay in a cache"
        return None

    def _computes_again(self, member: Member, read: Access, group: Group, kept: list[int]) -> bool:
        """Whether a read asks for elements of a loop of the group so often that to compute each anew takes longer than to write and read them.
        Values of a row, and rows that are kept, are computed once."""
        source = self._in_loop(read.buffer, group, kept)
        if source is None or source.reduces or ((group.reduces or member.reduces) and source.is_worth_a_row):
            return False
        times = member.body.points * read.times / max(1, source.body.points)
        if times <= 1:
            return False
        todo, together = [source], {source.result: source.body.cost}
        while todo:
            for operand in todo.pop().operands:
                inner = self._in_loop(operand, group, kept)
                if inner is not None and not inner.reduces and operand not in together:
                    together[operand] = inner.body.cost
                    todo.append(inner)
        again = (times - 1) * source.body.points * sum(together.values())
        return again > BYTE * tensor_bytes(source.result) * (1 + times)

    def _in_loop(self, value: ir.Value, group: Group, kept: list[int]) -> Member | None:
        """The member of the group whose result `value` is, if a point of the rows that it keeps has several elements of it."""
        source = self.members.get(value)
        if source is None or self.of[value] != group.number:
            return None
        return source if set(source.long_dims) - {source.row_dims[r] for r in kept} else None


def _parts_product(joining: Iterable[tuple[Member, tuple[int, ...]]], group: Group) -> bool:
    """Whether loops of members `joining` the group, with their dims of its rows, would stand beside a product of tensor cores that does not walk
    as they do: a kernel with other loops multiplies without these."""
    here = [(m, m.row_dims) for m in group.members]
    for members, others in ((here, joining), (joining, here)):
        tiles = [m.tiles(row_dims) for m, row_dims in members if m.sides is not None]
        for m, row_dims in others if tiles else ():
            loops = m.reduces or any(dim not in row_dims for dim in m.long_dims)
            if loops and (m.sides is None or any(m.tiles(row_dims) != each for each in tiles)):
                return True
    return False


def _steered(member: Member, group: Group, cost: int, refusal: str | None) -> str | None:
    """Why a member that could join a group does not, by what the plug-in says; `refusal`: by default."""
    producers = tuple(m.body.op for m in group.members)
    ops = group.ops + member.body.ops
    fusion = Fusion("form-kernels", producers, (member.body.op,), cost, ops, refusal is None, refusal or "")
    if may_fuse(fusion):
        return None
    return refusal or f"the hooks {name_of_hooks()} keep them apart"


def _transposes(member: Member, row_dims: tuple[int, ...]) -> bool:
    """Whether rows run in another order in the member, down to the dim that runs along memory."""
    long = member.long_dims
    return list(row_dims) != sorted(row_dims) and bool(long) and row_dims[-1] != long[-1] and set(row_dims) == set(long)


def _domain(sizes: Iterable[ir.AffineExpr]) -> str:
    return "x".join(str(size) for size in sizes) or "one point"
