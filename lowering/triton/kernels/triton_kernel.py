"""Kernels as text for Triton: one, and those of a program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from bascule.dialect.analysis.affine.symbol_terms import terms_of
from bascule.dialect.ir.locations import source_of
from bascule.dialect.ir.shapes import constant
from bascule.dialect.mlir import ir

from .kernel import ALIGNED, CLUSTER, DESCRIPTORS, GRID, NARROW, RESIDENT, STAGES, WARPS, WIDE

if TYPE_CHECKING:
    from ...program.launches import Launch  # with it comes torch, which a pass does without

LAUNCH = (GRID, WARPS, STAGES, RESIDENT, CLUSTER)


# A number, or terms to be added: a factor, then the numbers of the parameters that it is multiplied by.
Number: TypeAlias = int | list[list[int]]


class DescriptorParameter(TypedDict):
    """A tensor descriptor, one of the parameters after a kernel's pointers: boxes of a tensor that begins `start` elements from where the
    parameter of number `parameter` points to. Dims are slowest first, strides in elements; `element` is Triton's name of a dtype."""

    parameter: int
    start: int
    sizes: list[Number]
    strides: list[Number]
    box: list[int]
    element: str


@dataclass(frozen=True)
class TritonKernel:
    """A kernel as text for Triton: a module of one function. `grid` gives the number of programs from the symbols, None where only machine
    code is wanted; `location` is the user's line, or empty; `resident`: registers leave room for so
    many programs on a multiprocessor (0: as it comes); `cluster`: the programs that the GPU runs at the same time, neighbours in the grid."""

    name: str
    ttir: str = field(repr=False)
    grid: ir.AffineMap | None
    warps: int
    stages: int
    location: str = ""
    resident: int = 0
    cluster: int = 1
    descriptors: Sequence[DescriptorParameter] = ()

    @property
    def title(self) -> str:
        """For messages."""
        return f"kernel '{self.name}'" + (f" ({self.location})" if self.location else "")


def triton_kernels(module: ir.Module) -> list[TritonKernel]:
    """The kernels of a module that `to-triton` left. The text carries the users' source lines."""
    kernels = []
    with module.context, ir.Location.unknown():
        for view in module.body.operations:
            if view.operation.name == "tt.func":
                alone = ir.Module.create()
                view.operation.clone(ir.InsertionPoint(alone.body))
                kernels.append(triton_kernel(alone))
    return kernels


def triton_kernel(alone: ir.Module) -> TritonKernel:
    """The one kernel of a module, whose function loses the attributes for a launch. To be called in its context."""
    (view,) = alone.body.operations
    function = view.operation
    grid, warps, stages, resident, cluster = (function.attributes[name].value for name in LAUNCH)
    descriptors = []
    if DESCRIPTORS in function.attributes:
        descriptors = [_parameter(entry) for entry in function.attributes[DESCRIPTORS]]
        del function.attributes[DESCRIPTORS]
    for name in LAUNCH:
        del function.attributes[name]
    text = alone.operation.get_asm(enable_debug_info=True)
    name, location = function.attributes["sym_name"].value, source_of(function.location) or ""
    return TritonKernel(name, text, grid, warps, stages, location, resident, cluster, descriptors)


def _parameter(attribute: ir.DictAttr) -> DescriptorParameter:
    return DescriptorParameter(
        parameter=attribute["parameter"].value,
        start=attribute["start"].value,
        sizes=_numbers(attribute["sizes"]),
        strides=_numbers(attribute["strides"]),
        box=list(attribute["box"]),
        element=attribute["element"].value,
    )


def _numbers(attribute: ir.Attribute) -> list[Number]:
    """Numbers, or a map of the function's symbols, which are its first parameters."""
    return [*attribute] if isinstance(attribute, ir.DenseI64ArrayAttr) else [*map(_number, attribute.value.results)]


def _number(size: ir.AffineExpr) -> Number:
    known = constant(size)
    return [*map(list, terms_of(size) or [])] if known is None else known


@dataclass(frozen=True)
class LoweredKernels:
    """The kernels of a program by name, each variant under its own: their TTIR. And how each is launched, all variants alike."""

    kernels: Mapping[str, TritonKernel]
    launches: Mapping[str, "Launch"]


def variants_of(kernel: str) -> list[str]:
    """The names under which a kernel may be launched."""
    return [kernel + variant.suffix for variant in (WIDE, NARROW, ALIGNED)]
