"""Which computes walk the same rows by one index, and which by two: `x[m]` over 256 beside `y[i, j]` over 4x64.

A fold (A, B) is a pair of neighbouring indices of one loop, of static sizes A and B, where another compute walks the same memory of the same
tensor by one index of size A * B. It can be collapsed where nothing but `i * B + j` is made of the two.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ...ir.shapes import constant, layout_of
from ...mlir import ir
from ..affine.indexing import Indexing
from .body_summary import Body
from .body_tree import indices_of
from .costs import tensor_bytes

Fold = tuple[int, int]
Pair = tuple[ir.Value, ir.Value]  # the outer index of a fold and the inner one
Track = tuple[ir.Value, int]  # a tensor, and the step in elements from one row to the next


@dataclass(frozen=True)
class _Use:
    """One use of indices: the address of an access to `tensor`, or another number (None). `steps` has the constant factors of the indices that
    it is linear in; `opaque` are the others."""

    tensor: ir.Value | None
    steps: dict[ir.Value, int]
    opaque: frozenset[ir.Value]

    def takes_as_one(self, pair: Pair, inner: int) -> bool:
        outer_step, step = (self.steps.get(index, 0) for index in pair)
        return not self.opaque & {*pair} and outer_step == inner * step


class Walker:
    """One compute: the indices of its loops, and what is made of them."""

    def __init__(self, body: Body, indexing: Indexing):
        self.body, self.uses = body, list[_Use]()
        self.sizes: dict[ir.Value, int | None] = {}
        # Index -> its loop, and which of the loop's indices it is.
        self.loops: dict[ir.Value, tuple[ir.Operation, int]] = {}
        for loop in (body.op, *(node.op for node in body.loops)):
            indexing.enter(loop)
            for number, (index, size) in enumerate(zip(indices_of(loop), loop.attributes["ranges"].value.results)):
                self.sizes[index], self.loops[index] = constant(size), (loop, number)
        self._use(body.result, layout_of(body.result.type), indices_of(body.op), indexing)
        identity = ir.AffineMap.get_identity(1)

        def visit(view) -> ir.WalkResult:
            op = view.operation
            if op.name == "tensor.extract":
                source, *indices = op.operands
                self._use(source, layout_of(source.type), indices, indexing)
            elif op.name != "affine.apply":
                for operand in op.operands:
                    if isinstance(operand.type, ir.IndexType):
                        self._use(None, identity, [operand], indexing)
            return ir.WalkResult.ADVANCE

        body.op.walk(visit)

    def _use(
        self, tensor: ir.Value | None, map_: ir.AffineMap, indices: Sequence[ir.Value], indexing: Indexing
    ) -> None:
        ((expression, bases),) = indexing.at(map_, indices)
        form = indexing.simplifier.linear(expression)
        known = {d: step for d, step in form.steps.items() if isinstance(step, int) and d not in form.opaque}
        others = frozenset(bases[d] for d in (form.steps.keys() | form.opaque) - known.keys())
        self.uses.append(_Use(tensor, {bases[d]: step for d, step in known.items()}, others))

    @cached_property
    def whole(self) -> list[tuple[Track, ir.Value]]:
        """The tensors walked by one index, with that index."""
        uses = [(use.tensor, use.steps) for use in self.uses if use.tensor is not None]
        return [((x, step), index) for x, steps in uses for index, step in steps.items() if index in self.loops]

    @cached_property
    def pairs(self) -> list[tuple[Track, Fold, Pair]]:
        """The tensors walked by two neighbouring indices of one loop as if by one."""
        return [*self._pairs()]

    def _pairs(self) -> Iterator[tuple[Track, Fold, Pair]]:
        for use in self.uses:
            if use.tensor is None:
                continue
            for outer, step in use.steps.items():
                inner = self._next(outer)
                size, outer_size = self.sizes.get(inner), self.sizes.get(outer)
                if inner is not None and size and outer_size and step == size * use.steps.get(inner, 0):
                    yield (use.tensor, use.steps[inner]), (outer_size, size), (outer, inner)

    def _next(self, index: ir.Value) -> ir.Value | None:
        """The index after this one in its loop."""
        if index not in self.loops:
            return None
        loop, number = self.loops[index]
        arguments = indices_of(loop)
        return arguments[number + 1] if number + 1 < len(arguments) else None

    def collapses(self, pair: Pair) -> bool:
        """Whether nothing but one index is made of the two."""
        size = self.sizes[pair[1]]
        return size is not None and all(use.takes_as_one(pair, size) for use in self.uses)

    def reduces_along(self, index: ir.Value) -> bool:
        return self.loops[index][0] != self.body.op


def fold_sizes(bodies: Sequence[Body]) -> set[Fold]:
    """The sizes (A, B) of neighbouring indices of which a fold may be: some loop has an index of size A * B."""
    singles = {size for body in bodies for loop in _sizes(body) for size in loop}
    return {(a, b) for body in bodies for a, b in _pair_sizes(_sizes(body)) if a * b in singles}


def sizes_to_ask_again(body: Body, fold: Fold, sizes: set[Fold]) -> set[Fold]:
    """Of folds of `sizes`, and new ones, those of which it matters that a compute is collapsed by `fold`: what else its indices make, and
    make when two are one, and what is walked by one index now."""
    whole = fold[0] * fold[1]
    return {
        *(_pair_sizes(_sizes(body)) - {fold}),
        *_pair_sizes([_merged(loop, fold) for loop in _sizes(body)]),
        *(other for other in sizes if other[0] * other[1] == whole and other != fold),
    }


def _pair_sizes(loops: Sequence[Sequence[int | None]]) -> set[Fold]:
    return {(a, b) for loop in loops for a, b in pairwise(loop) if a and b and 1 not in (a, b)}


def _merged(loop: Sequence[int | None], fold: Fold) -> list[int | None]:
    """The sizes of a loop's indices where each pair of the sizes `fold` is one."""
    merged = list[int | None]()
    rest = [*loop]
    while rest:
        if tuple(rest[:2]) == fold:
            rest[:2] = []
            merged.append(fold[0] * fold[1])
        else:
            merged.append(rest.pop(0))
    return merged


def with_folds(bodies: Sequence[Body], folds: set[Fold]) -> list[Body]:
    """The computes with indices of sizes that make a fold: two neighbours of sizes A and B, or one of size A * B. What the others make of
    their indices need not be looked at."""
    singles = {a * b for a, b in folds}
    return [
        body
        for body in bodies
        if any(not singles.isdisjoint(loop) or not folds.isdisjoint(pairwise(loop)) for loop in _sizes(body))
    ]


def _sizes(body: Body) -> list[list[int | None]]:
    return [list(map(constant, loop.sizes)) for loop in (body.root, *body.loops)]


def to_collapse(walkers: Sequence[Walker], collapsible: set[ir.Value]) -> dict[Fold, list[tuple[Walker, list[Pair]]]]:
    """For each fold the computes to collapse, with their pairs: those that are connected, by tensors along the fold, with more bytes of
    tensors that others walk by one index, than of those that others can only walk by two. Only computes of the results `collapsible`."""
    ones: dict[tuple[ir.Value, int, int], None] = {}  # tensor, step, size
    for walker in walkers:
        ones.update({(*track, walker.sizes[index] or 0): None for track, index in walker.whole})
    folds = {
        fold: None
        for walker in walkers
        for track, fold, _ in walker.pairs
        if (*track, fold[0] * fold[1]) in ones and 1 not in fold
    }
    return {fold: found for fold in folds if (found := _chosen(walkers, fold, collapsible))}


def _chosen(walkers: Sequence[Walker], fold: Fold, collapsible: set[ir.Value]) -> list[tuple[Walker, list[Pair]]]:
    free: dict[Walker, list[Pair]] = {}
    tracks: dict[Walker, set[Track]] = {}
    flat, split = set[Track](), set[Track]()  # that a compute walks which cannot do otherwise
    for walker in walkers:
        found = [(track, pair) for track, of, pair in walker.pairs if of == fold]
        size = fold[0] * fold[1]
        ones = {t for t, i in walker.whole if walker.sizes[i] == size and not walker.reduces_along(i)}
        flat |= ones
        if not found:
            continue
        tracks[walker] = {track for track, _ in found}
        pairs = list(dict.fromkeys(pair for _, pair in found))
        apart = len({index for pair in pairs for index in pair}) == 2 * len(pairs)
        if walker.body.result in collapsible and apart and all(map(walker.collapses, pairs)):
            free[walker] = pairs
        else:
            split |= tracks[walker]
    chosen = []
    for group in _connected({walker: tracks[walker] for walker in free}):
        touched = set().union(*(tracks[walker] for walker in group))
        gain, loss = (sum(tensor_bytes(tensor) for tensor, _ in touched & known) for known in (flat, split))
        if gain > loss:
            chosen += [(walker, free[walker]) for walker in group]
    return chosen


def _connected(tracks: dict[Walker, set[Track]]) -> list[list[Walker]]:
    """The walkers in groups that share tracks, directly or through others; each in the order given."""
    users: dict[Track, list[Walker]] = {}
    for walker, known in tracks.items():
        for track in known:
            users.setdefault(track, []).append(walker)
    groups, seen = [], set[Walker]()
    for start in tracks:
        if start in seen:
            continue
        seen.add(start)
        todo, group = [start], set[Walker]()
        while todo:
            walker = todo.pop()
            group.add(walker)
            for track in tracks[walker]:
                new = [other for other in users.pop(track, ()) if other not in seen]
                seen.update(new)
                todo += new
        groups.append([walker for walker in tracks if walker in group] if len(group) > 1 else [start])
    return groups
