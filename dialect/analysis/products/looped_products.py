"""Grouped products that no library does at once: a loop on the host multiplies group by group, after it has waited for where they end. How long
that takes, and a kernel of all groups."""

from dataclasses import dataclass

from ...machines.measures import value

MACHINE = "h200"
LEAST = 16  # rows, summed elements and columns for an instruction of tensor cores
TILE = (
    128  # rows of a tile, or summed elements of two steps, at most: so many are multiplied by zeros where a group ends
)


@dataclass(frozen=True)
class LoopedProduct:
    """`groups` products, of rows x summed by summed x columns in all; `in_sums`: they share what is summed, not the rows. `width`: bytes of a
    factor; `tf32`: factors of f32 are rounded to TF32."""

    rows: int
    summed: int
    columns: int
    groups: int
    in_sums: bool
    width: int
    tf32: bool

    @property
    def refusal(self) -> str:
        """Why a loop is to multiply them; empty: a kernel is."""
        sizes = f"{self.rows}x{self.summed}x{self.columns} (rows, summed, columns)"
        if min(self.rows, self.summed, self.columns) < LEAST or (self.in_sums and self.summed <= TILE):
            return f"{sizes} are too few for tensor cores"
        kernel, loop = 1e6 * self.kernel, 1e6 * self.loop
        return "" if kernel <= loop else f"a kernel would take {kernel:.0f} us, a loop on the host takes {loop:.0f}"

    @property
    def loop(self) -> float:
        """Seconds of the loop."""
        multiplied = 2 * self.rows * self.summed * self.columns / value(MACHINE, self._rate)
        return value(MACHINE, "host_wait") + max(multiplied, self.groups * value(MACHINE, "host_call"))

    @property
    def kernel(self) -> float:
        """Seconds of a kernel, and of the copy that it reads."""
        beyond = self.groups * TILE // 2
        rows, summed = (self.rows, self.summed + beyond) if self.in_sums else (self.rows + beyond, self.summed)
        tf32 = "grouped_tf32_sums" if self.in_sums else "grouped_tf32"
        slower = value(MACHINE, "grouped_narrow" if self.width < 4 else tf32 if self.tf32 else "grouped_f32")
        multiplied = 2 * rows * summed * self.columns / value(MACHINE, self._rate) * slower
        return multiplied + value(MACHINE, "launch") + self._copy

    @property
    def _copy(self) -> float:
        """Seconds in which the smaller factor is copied, where sums in TF32 are in groups."""
        if not (self.in_sums and self.tf32 and self.width == 4):
            return 0.0
        moved = 2 * self.width * self.summed * min(self.rows, self.columns)
        return moved / value(MACHINE, "memory_rate") + value(MACHINE, "launch")

    @property
    def _rate(self) -> str:
        return "product_rate" if self.width < 4 else "product_rate_tf32" if self.tf32 else "product_rate_f32"
