"""How attention runs on an NVIDIA GPU's tensor cores: a program has a tile of queries and all columns of the values, and walks the keys.

Dao, Fu, Ermon, Rudra and Re, "FlashAttention": no score is stored. A step has the scores of a piece of keys, the running maximum and sum of
each row, and adds the piece's values to the row's, scaled where the maximum grew.
"""

from dataclasses import dataclass, replace
from math import inf

from ...analysis.bodies.nested_loops import iterations
from ...analysis.products.attention import Attention, attentions_of, yielded
from ...analysis.products.segments import with_data
from ...analysis.products.visible_keys import visible_keys
from ...ir.shapes import constant, expr
from ...ir.types import byte_width
from ...machines.measures import value
from ...mlir import ir
from .contractions import AROUND, LEAST, MACHINE, SUM
from .descriptors import numbers
from .domains import Domain, DomainPlan
from .machine import LARGE, power_of_two

# Queries of a tile, at most: a warp group's, of which two to four share a processor and hide each other's waits. With 128, of two warp groups,
# forwards take 1.13 times as long, gradients 1.1 (H200, 2026-11-27, `python -m benchmarks.attention`).
ROWS = 64
KEYS = 64  # of a step, at most: scores and values' sums share a thread's registers
# Columns of a tile, at least: with 16 or 32 and 64 keys a step Triton 3.6 gave wrong sums (H200, 2026-11-24, tests/gpu/test_attention.py).
NARROWEST = 64
NARROW, WIDE = WIDTHS = 2, 4  # bytes of a value
TF32_RATE = "product_rate_tf32"  # of the machine
DEEPEST = 512  # elements of a query, or columns of values, at most
TOGETHER = 256  # columns of two sums that walk together, at most: a thread's registers hold them
# Elements of a head, by the bytes of each, up to which a step has all keys and four warps do it: of more, half of the keys and twice the warps.
# Without tensor cores threads hold factors too: half of the rows from `LARGEST` elements on. So hardly anything spills (`--emit=sass-report`,
# sm_90, Triton 3.6).
COMMON = {NARROW: 256, WIDE: 64}
LARGEST = 256
# Bytes of a head's elements that are multiplied at once, at most: of more, or where shared memory has no room for a step of them, a piece after
# the other.
AT_ONCE, PIECE = 1024, 256
# Whether keys and values are loaded by tensor descriptors where they can be: 0.92 to 1.0 of the time with pointers (H200, 2026-11-26,
# `python -m benchmarks.attention`).
DESCRIPTORS = True
# Stages of pieces by descriptors for which ptxas ends with a segmentation fault, where a walk whose bounds a mask gives has a last step that is
# not whole (Triton 3.6 and sm_90, 2026-11-27: all of 51 such forwards and gradients with fewer rows than keys, none of 450 others).
CRASHING = 2
WARPS = 4  # of a warp group
STAGES = 3  # pieces of keys and values under way, at most
MEASURED = 64 << 10  # bytes under way of a program that reads as fast as `program_rate` says
SHORTEST = 4  # steps of a part of the keys, at least
# Of the time without parts, at most; of the least time: so many parts take as long.
GAIN, ABOUT = 0.9, 1.02
SAVED = 2  # launches that parts save the time of, at least
RESIDENT = 2  # programs of a multiprocessor that shared memory leaves room for, where that is two stages each: one computes while one waits


def attention(domain: Domain) -> DomainPlan | None:
    """The schedule of a domain whose loops are an attention for tensor cores, or two that walk together; None for another domain."""
    every = found_in(domain)
    if not every:
        return None
    found, products = every[0], [product for each in every for product in each.products]
    columns = iterations([domain.sizes[place] for place in found.columns])
    _, *changing = map(iterations, _sides(domain, found))
    rows, keys = (LARGE if size is None else size for size in changing)
    summed = [iterations(product.loop.sizes) or 0 for product in products]
    if columns is None or min(columns, keys - 1, *summed) < LEAST:
        return None
    wide, deep = power_of_two(max(columns, NARROWEST)), max(map(power_of_two, summed))
    if max(wide, deep) > DEEPEST or (len(every) > 1 and len(every) * wide > TOGETHER):
        return None
    most, keys_of_step, warps = tile_of(byte_width(found.values.element), found.is_exact, max(wide, deep))
    high = power_of_two(max(LEAST, min(rows, most)))
    step = min(keys_of_step, power_of_two(keys) // 2)  # fewer than there are: they are walked
    piece = _piece(domain, every, high, step)
    order = [*found.batch, *found.rows, *found.columns]
    batch = [1] * len(found.batch)
    inner = {product.loop: min(piece, power_of_two(n)) for product, n in zip(products, summed)}
    loops = domain.plan({**dict.fromkeys((loop for each in every for loop in each.loops), step), **inner})
    skips = all(_hides_keys(domain, each) for each in every)
    for loop in loops:
        loop.walk, loop.evict, loop.dot, loop.skip = loops[0].walk, "normal", True, skips
    for number, product in enumerate((inner for loop in loops for inner in loop.loops), len(domain.plans)):
        product.walk, product.dot = number, True  # each alone
    tile = [*batch, high, wide]
    plan = DomainPlan("attention", order, [*batch, len(found.rows), len(found.columns)], tile, warps, loops=loops)
    plan.stages = max(1, min(_stages(domain, every, high, step, piece), -(-keys // step)))
    crashes = plan.stages == CRASHING and skips and keys % step > 0
    # Of f32 values of TF32 would be in shared memory twice, as they are loaded and turned; exact factors have none.
    for each in every if DESCRIPTORS and not crashes and byte_width(found.values.element) == NARROW else ():
        _describe(domain, each)
    return plan


def tile_of(width: int, is_exact: bool, side: int) -> tuple[int, int, int]:
    """Rows of a tile and keys of a step, at most, and the warps of a program, of heads of `side` elements of `width` bytes."""
    if side <= COMMON[width]:
        return ROWS, KEYS, WARPS
    return ROWS // 2 if is_exact and side >= LARGEST else ROWS, KEYS // 2, 2 * WARPS


def _piece(domain: Domain, every: list[Attention], rows: int, step: int) -> int:
    """The elements of heads that a step multiplies at once."""
    width = byte_width(every[0].values.element)
    deep = max(iterations(product.loop.sizes) or 1 for each in every for product in each.products)
    walked, held = (sum(each.values()) for each in _bytes(domain, every))
    fits = power_of_two(deep) * width <= AT_ONCE and held * rows + walked * step <= domain.machine.shared
    return (AT_ONCE if fits else PIECE) // width


@dataclass(frozen=True)
class KeyParts:
    """The keys of an attention in `count` parts of `size`, of which some may have fewer, if not `exact`; and why they are. Parts have `turn`
    keys in turns, so that all have as many of those before a length; 0: each has keys that follow each other."""

    count: ir.AffineExpr
    size: int
    exact: bool
    why: str
    turn: int = 0

    @property
    def name(self) -> str:
        """They as a reader sees them."""
        return f"{self.count} parts of {self.size} keys" + (f", {self.turn} in turns" if self.turn else "")


def key_parts(domain: Domain) -> KeyParts | None:
    """The parts that the keys of an attention go into, so that programs keep the multiprocessors busy: as many as take about the least time.
    None where that saves less than it is worth, or for another domain. Where the number of keys or the batch changes from call to call they are
    in parts of one size."""
    every = found_in(domain)
    if len(every) != 1 or not every[0].normalizers:
        return None
    (found,) = every
    if None in (iterations(sizes) for sizes in (_sides(domain, found)[0], found.scores.sizes)):
        return _changing(domain, found)
    costs = _KeyCosts.of(domain, found)
    if costs is None:
        return None
    most = min(
        value("cuda", "pieces_a_multiprocessor") * domain.machine.sm_count // costs.programs, costs.steps // SHORTEST
    )
    sizes = {-(-costs.steps // n) * costs.step for n in range(2, most + 1)}
    times = {size: costs.seconds(-(-costs.keys // size)) for size in sizes}
    whole, least = costs.seconds(1), min(times.values(), default=inf)
    if least > min(GAIN * whole, whole - SAVED * value(MACHINE, "launch")):
        return None
    size = min(size for size, time in times.items() if time <= ABOUT * least)
    count, turn = -(-costs.keys // size), costs.step if is_looked_up(found) else 0  # no descriptor reads those
    us = [f"{1e6 * seconds:.0f} us" for seconds in (times[size], whole)]
    why = f"no score is in memory; {costs.programs * count} programs, predicted {us[0]}; {costs.programs} without parts, {us[1]}"
    return KeyParts(expr(count), size, costs.keys % size == 0, why, turn)


def _changing(domain: Domain, found: Attention) -> KeyParts | None:
    """The parts of keys of which it is not known how many there are, or how many programs without parts: as long as makes what they give little
    beside the keys."""
    rows, (keys,) = iterations([domain.sizes[place] for place in found.rows]), found.scores.sizes
    if rows is None:
        return None
    size, known = KEYS * max(2 * SHORTEST, power_of_two(rows)), constant(keys)
    if known is not None and known < 2 * size:
        return None
    turn = KEYS if known is not None and is_looked_up(found) else 0
    count, exact = expr(ir.AffineExpr.get_ceil_div(keys, expr(size))), known is not None and known % size == 0
    return KeyParts(count, size, exact, "no score is in memory, whatever the sizes are", turn)


@dataclass(frozen=True)
class _KeyCosts:
    """The costs of an attention of `programs` tiles, each of so many `keys` in so many `steps` of `step` keys and `piece` bytes, of which
    `ahead` steps are under way; `reads`: programs that read different keys, `slots`: programs that multiprocessors have at a time, `partial`:
    bytes of what a part of the keys gives, `multiplied`: seconds of the products of a step."""

    programs: int
    keys: int
    steps: int
    step: int
    piece: int
    ahead: int
    reads: int
    slots: int
    partial: int
    multiplied: float
    sm_count: int

    @staticmethod
    def of(domain: Domain, found: Attention) -> "_KeyCosts | None":
        plan = attention(domain)
        batch, rows, keys = (iterations(sizes) for sizes in _sides(domain, found))
        if plan is None or batch is None or rows is None or keys is None:
            return None
        step, (high, wide), sm_count = plan.loops[0].step, plan.tile[-2:], domain.machine.sm_count
        piece = _piece(domain, [found], high, step)
        walked, held = (sum(each.values()) for each in _bytes(domain, [found], piece))
        # A table is read a step before what it leads to.
        ahead = max(1, plan.stages - (2 if is_looked_up(found) else 1))
        buffers = ahead if is_looked_up(found) else plan.stages
        resident = domain.machine.shared // (buffers * walked * step + held * high)
        deep = sum(iterations(product.loop.sizes) or 0 for product in found.products)
        return _KeyCosts(
            programs=batch * -(-rows // high),
            keys=keys,
            steps=-(-keys // step),
            step=step,
            piece=walked * step,
            ahead=ahead,
            reads=batch,
            slots=sm_count * max(1, resident),
            partial=SUM * batch * rows * wide,
            multiplied=2 * high * step * (deep + wide) * sm_count / value(MACHINE, _rate(found)),
            sm_count=sm_count,
        )

    def seconds(self, parts: int) -> float:
        """With the keys in so many parts."""
        programs, steps = self.programs * parts, -(-self.steps // parts)
        waiting = self.piece / (value(MACHINE, "program_rate") * min(1.0, self.ahead * self.piece / MEASURED))
        walked = max(
            self.reads * self.steps * self.piece / value(MACHINE, "memory_rate"),
            -(-programs // self.slots) * (steps + AROUND) * waiting,
            -(-programs // self.sm_count) * (steps + AROUND) * self.multiplied,
        )
        together = 2 * parts * self.partial / value(MACHINE, "memory_rate") + value(MACHINE, "launch")
        return walked + (together if parts > 1 else 0)


def _rate(found: Attention) -> str:
    """The measure of how fast products of such values are."""
    if byte_width(found.values.element) == NARROW:
        return "product_rate"
    return "product_rate_f32" if found.is_exact else TF32_RATE


def _describe(domain: Domain, found: Attention) -> None:
    """Has tensor descriptors load the keys and values that can be."""
    batch = [
        [domain.indices[place]] for place in range(len(domain.indices)) if place not in (*found.rows, *found.columns)
    ]
    for product in found.products:
        keys = numbers(domain, product.loop, product.y, [*batch, found.scores.indices])
        domain.plans[product.loop].descriptors = keys
    columns = [domain.indices[place] for place in found.columns]
    domain.plans[found.weighted].descriptors = numbers(domain, found.weighted, found.values, [*batch, columns])


def is_looked_up(found: Attention) -> bool:
    """Whether a table says where keys or values are."""
    operands = [found.values, *(product.y for product in found.products)]
    return any(access.width > byte_width(operand.element) for operand in operands for access in operand.accesses)


def _sides(domain: Domain, found: Attention) -> list[list[ir.AffineExpr]]:
    """The sizes of the batch, of rows, and of keys."""
    return [*([domain.sizes[place] for place in places] for places in (found.batch, found.rows)), found.scores.sizes]


def _stages(domain: Domain, every: list[Attention], rows: int, step: int, piece: int) -> int:
    """Steps under way: what they read and the rows' own operands are in shared memory, once for all that read it, and so in that of `RESIDENT`
    programs of a multiprocessor if it has room for two steps of each. Values of TF32 are there once more, turned."""
    walked, held = (sum(each.values()) for each in _bytes(domain, every, piece))
    read, shared = walked * step, domain.machine.shared
    wide = sum(power_of_two(iterations([domain.sizes[place] for place in each.columns]) or 1) for each in every)
    turned = wide * step * WIDE if _rate(every[0]) == TF32_RATE else 0
    free = [shared // programs - held * rows - turned for programs in (RESIDENT, 1)]
    return min(STAGES, next((room // read for room in free if room // read > 1), 1))


def _bytes(
    domain: Domain, every: list[Attention], piece: int = DEEPEST
) -> tuple[dict[ir.Value, int], dict[ir.Value, int]]:
    """The bytes in shared memory for each key of a step, and for each row, by the buffers that they are read from. Products have `piece`
    elements of them at once."""
    held, walked = dict[ir.Value, int](), dict[ir.Value, int]()
    for each in every:
        (key,) = each.scores.indices
        operands = [operand for product in each.products for operand in (product.x, product.y)]
        deep = [product.loop.sizes for product in each.products for _ in range(2)]
        columns = [domain.sizes[place] for place in each.columns]
        for operand, sizes in zip([*operands, each.values], [*deep, columns]):
            wide = power_of_two(iterations(sizes) or 1)
            wide = (wide if operand is each.values else min(piece, wide)) * byte_width(operand.element)
            for access in operand.accesses:
                if access.width <= byte_width(operand.element):  # no index that a table has
                    (walked if operand.varies(key) or operand is each.values else held)[access.buffer] = wide
    return walked, held


def found_in(domain: Domain) -> list[Attention]:
    """The attentions of values of 16 bits or f32 that a domain is, one or two; nothing if it is something else."""
    if domain.machine.capability < 80:
        return []
    found = attentions_of(domain.inner, domain.indices, domain.sizes, with_data(domain.body, domain.accesses))
    taken = all(byte_width(each.values.element) in WIDTHS and each.rows and each.columns for each in found)
    return found if taken else []


def walk_together(one: Domain, other: Domain) -> tuple[int, ...] | None:
    """The dim of `other` for each of `one`, if one kernel takes the attentions without softmax that both are, and has a product of theirs once:
    the gradients of keys and of values. Its sums share a thread's registers. None if none does."""
    found = [*found_in(one), *found_in(other)]
    if len(found) != 2 or len(one.sizes) != len(other.sizes):
        return None
    first, second = found
    placed = [[*each.batch, *each.rows, *each.columns] for each in found]
    left, free = ([dim for dim in range(len(one.sizes)) if dim not in dims] for dims in placed)
    dims = dict(zip([*placed[0], *left], [*placed[1], *free]))
    if any(one.sizes[dim] != other.sizes[place] for dim, place in dims.items()):
        return None
    if not first.walks_with(replace(second, batch=first.batch, rows=first.rows, columns=first.columns)):
        return None
    indices = {index: other.indices[dims[dim]] for dim, index in enumerate(one.indices)}
    indices |= dict(zip(first.scores.indices, second.scores.indices))
    if not any(product.reads_as(wanted, indices) for product in first.products for wanted in second.products):
        return None
    columns = iterations([one.sizes[place] for place in first.columns])
    if columns is None or 2 * power_of_two(max(columns, NARROWEST)) > TOGETHER:
        return None
    return tuple(dims[dim] for dim in range(len(one.sizes)))


def _hides_keys(domain: Domain, found: Attention) -> bool:
    """Whether a mask gives bounds of the keys that a query sees."""
    body, (key,) = domain.body, found.scores.indices
    assert body.indexing is not None
    indexing = body.indexing

    batch = {domain.indices[place] for place in found.batch}

    def depends(value: ir.Value) -> set[int]:
        """The loops' indices that an index is computed of, by way of data or not."""
        if not body.dependence:
            body.depend()
        found = {body.number(base) for base in indexing.resolve(value)[1]}
        return {n for base in found for n in ({base} if base in body.sizes else body.dependence.get(base, {}))}

    def index(value: ir.Value) -> ir.AffineExpr | None:
        if not isinstance(value.type, ir.IndexType):  # it is read
            same = all(depends(operand) <= batch for operand in list(value.owner.operands)[1:])
            return ir.AffineExpr.get_dim(body.number(value)) if same else None
        expression, bases = indexing.resolve(value)
        numbers = [body.number(base) for base in bases]
        dims = ir.AffineMap.get(max(numbers, default=0) + 1, 0, [ir.AffineExpr.get_dim(number) for number in numbers])
        return expression.compose(dims)

    sizes = dict(zip((*domain.indices, key), (*domain.sizes, *found.scores.sizes)))
    weight = not found.normalizers
    return visible_keys(yielded(found.scores.op), key, sizes, index, weight=weight) is not None
