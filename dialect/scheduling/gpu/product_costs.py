"""How long products of static sizes take on an NVIDIA GPU: as calls of a library, with the kernels before and after, and as contractions."""

from dataclasses import dataclass

from ...machines.measures import value
from .contractions import HIGHEST, MACHINE, WIDEST, step_of, tile_of

# Steps that a program takes longer than those of its loop: until the first piece is there, and for what follows the sums.
AROUND = 1.5
STEP = 64  # elements of 16 bits that a step of a contraction sums
SIDE = 32  # half of the rows, and a quarter of the columns, below which tensor cores wait for shared memory
LANES = 32  # operations on one element in a clock: nothing is multiplied meanwhile, for registers are free when products before are done
CLOCK = 1.7e9  # of a multiprocessor
APART = 1.25  # the time of sums some of which are added up apart, over that of others
# Of 16-bit products, elements of a tile in a clock of one operation of what follows, in the units of `analysis/bodies/costs.py`: a gelu, of 28,
# takes 3.5 steps of 128 x 256 x 64 (H200, 2026-11-27, `python -m benchmarks.products`).
AFTERWARDS = 220


@dataclass(frozen=True)
class Product:
    """`batch` products of matrices, rows x summed by summed x columns, of elements that are multiplied in `width` bytes. `sums`: those that a
    thread has of each element."""

    batch: int
    rows: int
    summed: int
    columns: int
    width: int
    sums: int = 1

    @property
    def operations(self) -> int:
        return 2 * self.batch * self.rows * self.summed * self.columns

    @property
    def rate(self) -> float:
        return value(MACHINE, "product_rate_8bit" if self.width == 1 else "product_rate")

    def called(self, moved: int) -> float:
        """Seconds of a call that reads and writes `moved` bytes."""
        apart = value(MACHINE, "partial_sums") if self.sums > 1 else 1
        return max(self.operations / self.rate * apart, seconds(moved)) + value(MACHINE, "launch")

    def fused(self, moved: int, sm_count: int, ops: int = 0, of_columns: bool = True) -> float:
        """Seconds of a contraction that reads and writes `moved` bytes. `ops`: what is computed for each element of the factor of columns, or of
        rows, which a program does for all of its tile again."""
        sides = (self.columns, self.rows) if ops and of_columns else (self.rows, self.columns)
        high, wide = tile_of(*sides, self.batch, self.sums, sm_count)
        step = step_of(self.summed, self.width, self.width)
        programs = self.batch * -(-sides[0] // high) * -(-sides[1] // wide)
        steps = -(-self.summed // step) + AROUND
        multiplied = 2 * high * wide * step * sm_count / self.rate * (APART if self.sums > 1 else 1)
        computed = ops * high * step / (LANES * CLOCK)
        busy = min(1.0, programs / sm_count)
        return max(-(-programs // sm_count) * steps * (multiplied + computed), seconds(moved) / busy) + value(
            MACHINE, "launch"
        )


@dataclass(frozen=True)
class GroupedCosts:
    """Of `products` grouped products of the same rows, in groups, summed elements and columns, of 16 bits: seconds as calls, and as one kernel
    whose programs take tile after tile. `moved`: bytes of results that only calls write and read."""

    products: int
    rows: int
    summed: int
    columns: int
    groups: int
    moved: int

    @property
    def _steps(self) -> int:
        return -(-self.summed // STEP)

    def called(self) -> float:
        """Of calls, and what the kernel behind them takes for the results that they wrote."""
        operations = 2 * self.products * self.rows * self.summed * self.columns
        ends = 1 + value(MACHINE, "grouped_call_end") / self._steps
        launches = self.products + (1 if self.moved else 0)
        return (
            operations / value(MACHINE, "tensor_rate") * ends
            + seconds(self.moved)
            + launches * value(MACHINE, "launch")
        )

    def fused(self, sm_count: int) -> float:
        """Of the kernel, and of the small one before it that checks offsets."""
        high, wide = tile_of(self.rows, self.columns, 1, self.products, sm_count, self.groups)
        tiles = -(-self.rows // high) * -(-self.columns // wide)
        step = 2 * self.products * high * wide * STEP * sm_count / value(MACHINE, "tensor_rate")
        turns = -(-tiles // sm_count)
        return turns * (self._steps + value(MACHINE, "tile_end")) * step + 2 * value(MACHINE, "launch")


@dataclass(frozen=True)
class ReadCosts:
    """Of `batch` products of 16 bits, of aligned rows, each element of which one kernel reads: seconds as calls and that kernel, and as one
    kernel whose programs take tile after tile. `product`: bytes of the result; `others`: of what else that kernel reads and writes; `ops`: what
    it does for an element."""

    batch: int
    rows: int
    summed: int
    columns: int
    product: int
    others: int
    ops: int

    def called(self, sm_count: int) -> float:
        """A library has tiles, or cuts of sums, with which no multiprocessor waits for the last ones."""
        high, wide = HIGHEST, WIDEST
        tiles = self.batch * self.rows * self.columns / (high * wide)
        steps = -(-self.summed // STEP) + value(MACHINE, "product_end")
        return tiles / sm_count * steps * _step(high, wide, sm_count) + kernel(0) + kernel(self.product + self.others)

    def fused(self, sm_count: int) -> float:
        high, wide = tile_of(self.rows, self.columns, self.batch, 1, sm_count)
        tiles = self.batch * -(-self.rows // high) * -(-self.columns // wide)
        end = value(MACHINE, "product_end") * _step(high, wide, sm_count) + self.ops * high * wide / (
            AFTERWARDS * CLOCK
        )
        each = -(-self.summed // STEP) * _step(high, wide, sm_count) + end
        return max(-(-tiles // sm_count) * each, seconds(self.others)) + value(MACHINE, "launch")


def _step(high: int, wide: int, sm_count: int) -> float:
    """Seconds of a step of a tile of 16 bits. In smaller ones tensor cores wait for shared memory, which gives both sides anew."""
    slower = (1 + SIDE / high) * (1 + SIDE / (2 * wide)) / ((1 + SIDE / HIGHEST) * (1 + SIDE / (2 * WIDEST)))
    return 2 * high * wide * STEP * sm_count / value(MACHINE, "tensor_rate") * slower


def kernel(moved: int) -> float:
    """Seconds of a kernel that moves so many bytes, and computes little."""
    return seconds(moved) + value(MACHINE, "launch")


def seconds(moved: int) -> float:
    return moved / value(MACHINE, "memory_rate")


def microseconds(time: float) -> str:
    """Seconds, for a remark."""
    return f"{time * 1e6:.3g} us"
