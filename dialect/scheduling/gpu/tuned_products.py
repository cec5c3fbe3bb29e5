"""A product's schedule that was measured: the attribute that leads from ATen's call through a compute's sum to the kernel's schedule."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...errors import UserError
from ...ir.attribute_names import TUNED_PRODUCT
from ...ir.attributes import i64
from ...ir.locations import source_of
from ...mlir import ir
from .schedule_form import DomainSchedule, KernelSchedule, LoopSchedule

KIND = "contraction"  # of a domain whose loops tensor cores run, and nothing else
NUMBERS = ("step", "warps", "stages", "group")
OPTIONAL = ("programs", "consumers")  # left out where they are 0
SHARED_TILE = 128 * 128  # elements of a tile, up to which two programs of a multiprocessor hold their sums


@dataclass(frozen=True)
class ProductSchedule:
    """The numbers of a contraction's schedule that its own plan leaves free: rows and columns of a tile, elements summed in a step, warps of a
    program, steps under way, tiles of rows whose programs follow each other, the factors that tensor descriptors load; how many programs take
    tile after tile (0: each has one), and how many warp groups of one multiply while another loads (0: each warp does both)."""

    tile: tuple[int, int]
    step: int
    warps: int
    stages: int
    group: int
    descriptors: tuple[int, ...] = ()
    programs: int = 0
    consumers: int = 0

    def __str__(self) -> str:
        high, wide = self.tile
        loads = "descriptors" if len(self.descriptors) == 2 else "one descriptor" if self.descriptors else "pointers"
        each = (
            f"{high} x {wide} x {self.step}, {self.warps} warps, {self.stages} stages, groups of {self.group}, {loads}"
        )
        turns = f"{each}, tile after tile" if self.programs else each
        return f"{turns}, {self.consumers} warp groups beside one that loads" if self.consumers else turns

    @staticmethod
    def of(schedule: KernelSchedule) -> "ProductSchedule | None":
        """That of a kernel which is one contraction; None for another."""
        if schedule.group or schedule.domains[0].kind != KIND or len(schedule.domains[0].loops) != 1:
            return None
        (domain,) = schedule.domains
        (loop,) = domain.loops
        high, wide = domain.tile[-2:]
        numbers = loop.step, schedule.warps, schedule.stages, domain.group
        return ProductSchedule((high, wide), *numbers, tuple(loop.descriptors), domain.programs, domain.consumers)

    def applied(self, schedule: KernelSchedule) -> KernelSchedule:
        """`schedule`, of a kernel which is one contraction, with its numbers."""
        (domain,) = schedule.domains
        (loop,) = domain.loops
        self.changed(domain := replace(domain), loop := replace(loop), self.descriptors)
        resident = self.resident(schedule.resident)
        domains = [replace(domain, loops=[loop])]
        return replace(schedule, domains=domains, warps=self.warps, stages=self.stages, resident=resident)

    def resident(self, asked: int) -> int:
        """Programs of a multiprocessor for which registers are to leave room, where so many are asked for: as it comes with larger tiles."""
        high, wide = self.tile
        return asked if high * wide <= SHARED_TILE else 0

    def changed(self, domain: DomainSchedule, loop: LoopSchedule, possible: Sequence[int]) -> None:
        """Writes its numbers, but those of the program, into the schedule of a domain and that of the one loop in it, of whose factors
        descriptors can load those that are `possible`."""
        domain.tile = [*domain.tile[:-2], *self.tile]
        domain.group, domain.programs, domain.consumers = self.group, self.programs, self.consumers
        loop.step = self.step
        loop.descriptors = [number for number in self.descriptors if number in possible]

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> "ProductSchedule":
        """Raises KeyError, TypeError or ValueError for what is none."""
        numbers = {name: int(told[name]) for name in (*NUMBERS, *OPTIONAL)}
        return ProductSchedule(_two(told["tile"]), descriptors=tuple(map(int, told["descriptors"])), **numbers)

    def attribute(self) -> ir.DictAttr:
        keys: dict[str, ir.Attribute] = {name: i64(getattr(self, name)) for name in NUMBERS}
        for name in ("tile", "descriptors"):
            keys[name] = ir.DenseI64ArrayAttr.get(getattr(self, name))
        keys |= {name: i64(getattr(self, name)) for name in OPTIONAL if getattr(self, name)}
        return ir.DictAttr.get(keys)


def is_kernel(op: ir.Operation) -> bool:
    """Whether a product is marked as a kernel: by a schedule or a unit. False is the mark of one that was measured and stays a call."""
    return TUNED_PRODUCT in op.attributes and op.attributes[TUNED_PRODUCT] != ir.BoolAttr.get(False)


def tuned_product(op: ir.Operation) -> ProductSchedule | None:
    """The schedule that was measured for a product, of its call or its sum; None where nothing was, or where the plan of the model is asked for
    (a unit). Raises `UserError` for what is no schedule."""
    if TUNED_PRODUCT not in op.attributes or not isinstance(op.attributes[TUNED_PRODUCT], ir.DictAttr):
        return None
    keys = {entry.name: entry.attr for entry in ir.DictAttr(op.attributes[TUNED_PRODUCT])}
    try:
        numbers = {name: keys[name].value for name in (*NUMBERS, *(name for name in OPTIONAL if name in keys))}
        return ProductSchedule(_two(keys["tile"]), descriptors=tuple(keys["descriptors"]), **numbers)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"'{TUNED_PRODUCT}' is no schedule of a product: {type(error).__name__}: {error}",
            location=source_of(op.location),
            hint="a unit asks for the schedule that the model chooses",
        ) from None


def _two(numbers: Sequence[int]) -> tuple[int, int]:
    high, wide = map(int, numbers)
    return high, wide


def has_tuned_product(block: ir.Block) -> bool:
    """Whether the body of a kernel has a product that was measured as one."""
    return any(TUNED_PRODUCT in view.operation.attributes for view in block.operations)
