"""Row schedules: what is held in registers at once, in several tiles, or read in steps."""

from dataclasses import replace

import pytest
from bascule.dialect.scheduling.gpu.machine import H200, CudaMachine
from bascule.dialect.scheduling.gpu.rows import rows
from bascule.dialect.scheduling.gpu.schedule_form import MOST_KEPT

from tests.dialect.small_kernels import domain_of, foreach, kernel, load, mlir, reduce, row_sums, scaled_rows, store

__all__ = ["mlir"]


@pytest.mark.parametrize(
    "count, length, tile, warps, step, held",
    [
        (5, 129, 1, 1, 256, False),  # one tile
        (5, 1, 1, 1, 1, False),
        (5, 1025, 1, 1, 256, True),  # five tiles of 256 have fewer points than one of 2048
        (100_003, 129, 8, 2, 256, False),  # 2048 elements a program
        (0, 129, 1, 1, 256, False),
    ],
)
def test_rows_that_fit(count, length, tile, warps, step, held):
    plan = rows(domain_of(row_sums(count, length)))
    (loop,) = plan.loops
    assert (plan.kind, plan.tile, plan.warps, plan.stages) == ("row", [tile], warps, 1)
    assert (loop.step, loop.held) == (step, held)


@pytest.mark.parametrize(
    "length, warps, step, fold",
    [
        (100_003, 4, 4 * 32 * 16, 1),  # begins anywhere: a thread loads one element
        (100_004, 8, 8 * 32 * 16, 4),  # 64 bytes of a thread in flight
        (16_387, 4, 4 * 32 * 16, 1),
    ],
)
def test_rows_in_steps(length, warps, step, fold):
    plan = rows(domain_of(row_sums(1000, length)))
    (loop,) = plan.loops
    assert (plan.tile, plan.warps, loop.step, loop.fold, loop.kept) == ([1], warps, step, fold, 0)
    assert loop.evict == "normal"


def test_a_program_of_few_rows_has_a_multiprocessor_to_itself():
    plan = rows(domain_of(row_sums(132, 100_003)))
    assert (plan.warps, plan.loops[0].step) == (32, 32 * 32 * 16)
    assert rows(domain_of(row_sums(133, 100_003))).warps == 4


def test_long_rows_that_are_read_again_are_shared():
    most = H200.cached // 4
    assert rows(domain_of(scaled_rows(5, most + 1))).cluster == 8
    assert rows(domain_of(scaled_rows(5, most))).cluster == 1  # the L2 cache has it


WIDTHS = {"i8": 1, "bf16": 2, "f16": 2, "f32": 4, "i32": 4, "f64": 8}
A100, L40 = CudaMachine(108, 80, 1 << 16, 40 << 20), CudaMachine(142, 89, 1 << 16, 96 << 20)
HALF = CudaMachine(66, 80, 1 << 15, 15 << 20)  # half the registers, a quarter of the cache
MACHINES = {"H200 without clusters": replace(H200, capability=80), "A100": A100, "L40": L40, "half": HALF}


def held(plan, element: str) -> int:
    """Bytes of a row that stay in registers."""
    return plan.loops[0].kept * plan.loops[0].step * WIDTHS[element]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("element", WIDTHS)
def test_what_registers_keep_of_long_rows(machine, element):
    width, before, share = WIDTHS[element], 0, machine.cached
    for length in [n * 8192 for n in range(4, 64, 3)] + [1 << 20]:
        plan = rows(domain_of(scaled_rows(4096, length, element), machine))
        under_way, kept = 32 // plan.warps, held(plan, element)
        left, most = (length * width - kept) * under_way, machine.held
        assert kept * under_way <= most
        assert kept % (plan.loops[0].step * width) == 0 and kept <= length * width
        more = kept + plan.loops[0].step * width
        full = more * under_way > most or plan.loops[0].kept == MOST_KEPT
        assert left <= share or full, "the cache has what registers do not keep, or these are full"
        assert not kept or left + plan.loops[0].step * width * under_way > share, "no more is kept than must be"
        assert kept >= before, "of longer rows no less is kept"
        before = kept
    assert before, "of the longest rows some is kept"


@pytest.mark.parametrize("element", ["bf16", "f16", "i8", "i32", "f64"])
@pytest.mark.parametrize("length", [65536, 98304, 104240, 114688, 131072, 163840, 200_000, 262_144])
def test_neighbours_are_scheduled_alike(element, length):
    machine = replace(H200, capability=80)
    (one, other) = (rows(domain_of(scaled_rows(4096, n, element), machine)) for n in (length, length + 16))
    assert one.warps == other.warps
    assert 0 <= held(other, element) - held(one, element) <= other.loops[0].step * WIDTHS[element]


@pytest.mark.parametrize(
    "length, kept",
    [(131072, 4), (131064, 4), (131080, 4), (131071, 2), (131073, 2), (130_999, 2), (104_729, 1), (104_224, 0)],
)
def test_rows_of_16_bits_about_a_power_of_two(length, kept):
    """131071, 130999 and 104729 are primes: what begins anywhere takes more registers, and two steps are all that there is room for."""
    loops = rows(domain_of(scaled_rows(4096, length, "bf16"))).loops
    assert [loop.kept for loop in loops] == [kept, kept]


def test_rows_under_way_share_the_cache():
    """With 140 rows two programs share a multiprocessor; all rows are under way at once."""
    (alone, two) = (rows(domain_of(scaled_rows(n, 131072, "bf16"))) for n in (4096, 140))
    assert (alone.warps, two.warps) == (32, 16)
    assert 140 * (262144 - held(two, "bf16")) <= H200.cached * 132 or 2 * held(two, "bf16") == H200.held
    assert held(two, "bf16") * 2 <= H200.held


def test_a_larger_cache_leaves_less_to_registers():
    kept = [
        rows(domain_of(scaled_rows(4096, 131072, "bf16"), replace(H200, l2_bytes=size << 20))).loops[0].kept
        for size in (20, 40, 50, 60, 80, 120)
    ]
    assert kept == [10, 8, 6, 4, 0, 0]
    fewer = rows(domain_of(scaled_rows(4096, 131072, "bf16"), replace(H200, sm_count=66)))
    assert fewer.loops[0].kept == 0  # each has twice as much of the cache


def test_rows_of_a_dynamic_length_keep_nothing():
    x, y = "memref<4096x?xbf16, affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>", "memref<4096xbf16>"
    total = reduce("%s", "%k", "s0", load("%a", "%x", "%i, %k", x), "%a", "bf16")
    scaled = "\n".join(
        (load("%a", "%x", "%i, %k", x), "%b = arith.mulf %a, %s : bf16", store("%b", "%x", "%i, %k", x, "bf16"))
    )
    op = kernel(f"%s0: index, %x: {x}, %y: {y}", "%i", "4096", total, foreach("%k", "s0", scaled))
    assert [loop.kept for loop in rows(domain_of(op)).loops] == [0, 0]


def test_rows_of_a_dynamic_length_are_walked():
    x, y = "memref<1000x?xf32, affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>", "memref<1000xf32>"
    total = reduce("%s", "%k", "s0", load("%a", "%x", "%i, %k", x), "%a")
    op = kernel(f"%s0: index, %x: {x}, %y: {y}", "%i", "1000", total, store("%s", "%y", "%i", y))
    domain = domain_of(op)
    plan = rows(domain)
    assert plan.loops[0].walks(domain.inner[0].sizes)
    assert plan.loops[0].step == plan.warps * 32 * 16


def test_a_scan_is_read_ahead():
    x, row = "memref<7x5003xf32>", "tensor<5003xf32>"
    scan = f"""%r = "bascule.scan"() ({{
    ^bb0(%k: index):
      {load("%a", "%x", "%i, %k", x)}
      "bascule.yield"(%a) : (f32) -> ()
    }}) {{kind = "sum", dim = 0 : i64, ranges = affine_map<() -> (5003)>}} : () -> {row}
    "bascule.foreach"() ({{
    ^bb0(%k: index):
      %b = tensor.extract %r[%k] : {row}
      {store("%b", "%y", "%i, %k", x)}
      "bascule.yield"() : () -> ()
    }}) {{ranges = affine_map<() -> (5003)>}} : () -> ()"""
    plan = rows(domain_of(kernel(f"%x: {x}, %y: {x}", "%i", "7", scan)))
    assert plan.kind == "scan"
    assert plan.loops[0].step == 8192  # the row fits, and is one step


def test_few_programs_of_short_rows_beside_columns_read_ahead():
    """Chunk i of x has 56 rows of 96: each row is summed, and each column of the chunk."""
    x, u, v = "memref<3584x56x96xf32>", "memref<3584x56xf32>", "memref<3584x96xf32>"
    row = reduce("%s", "%c", "96", load("%a", "%x", "%i, %r, %c", x), "%a") + "\n" + store("%s", "%u", "%i, %r", u)
    column = reduce("%s", "%r", "56", load("%a", "%x", "%i, %r, %c", x), "%a") + "\n" + store("%s", "%v", "%i, %c", v)
    op = kernel(f"%x: {x}, %u: {u}, %v: {v}", "%i", "3584", foreach("%r", "56", row), foreach("%c", "96", column))
    plan = rows(domain_of(op))
    # 448 programs: two warps of each would leave a multiprocessor with seven, and 12 KiB on their way.
    assert (plan.tile, plan.warps, plan.stages, plan.resident) == ([8], 4, 3, 4)
    assert [loop.along for loop in plan.loops] == [-1, 0]
