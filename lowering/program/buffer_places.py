"""Where the memrefs of a program lie, as Python text: the pointer a kernel takes, the tensor an ATen operator takes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from bascule.dialect.analysis.memory.buffers import Sizes, moved_by, strides
from bascule.dialect.errors import UserError
from bascule.dialect.ir.functions import DETACHED, SAVED, VIEW_OF_DETACHED
from bascule.dialect.ir.locations import source_of
from bascule.dialect.ir.scalar_types import scalar_type_of
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.ir.types import byte_width
from bascule.dialect.mlir import ir

from .expressions import python_of, sizes_of
from .source import Source

LONG = 16  # characters from which an offset gets a name


@dataclass(frozen=True)
class Place:
    """`offset` bytes from the first element of the tensor called `base`. `whole`: it is that tensor."""

    base: str
    offset: ir.AffineExpr
    whole: bool


def view_function(how: str) -> str:
    """The function of `bascule.runtime.module_api` that makes a result which autograd sees as `how` tells."""
    return "saved_view" if how == SAVED else "view_of"


def displacement(op: ir.Operation, sizes: Sizes) -> ir.AffineExpr:
    """How many bytes the first element of the result of an aliasing op lies behind that of its source."""
    match op.name:
        case "bascule.view":
            return moved_by(op) * byte_width(op.results[0].type.element_type)
        case "memref.view":
            return sizes.expression(op.operands[1])
    return expr(0)  # memref.reinterpret_cast, memref.cast


def _check_inside(op: ir.Operation, offset: ir.AffineExpr) -> None:
    """Raises `UserError` for a `memref.view` that reaches over its source's ends, where all of that is constant."""
    arena, buffer, begin = op.operands[0].type, op.results[0].type, constant(offset)
    if begin is None or not (arena.has_static_shape and buffer.has_static_shape):
        return
    end, size = begin + prod(buffer.shape) * byte_width(buffer.element_type), arena.shape[0]
    if begin < 0 or end > size:
        told = f"a buffer of an arena of {size} bytes lies at its bytes {begin} to {end}"
        raise UserError(told, location=source_of(op.location))


@dataclass
class Kept:
    """The views and addresses of an arena that is pooled between calls, made once with it. `mark`: the line after which they are unpacked."""

    mark: int
    made: dict[str, str] = field(default_factory=dict)  # text -> its name


class Places:
    """Names and texts of a function's memrefs. Lines that make a pointer or a tensor are written where it is first needed."""

    def __init__(self, source: Source, sizes: Sizes, symbols: list[str]):
        self.source, self.sizes, self.symbols = source, sizes, symbols
        self.known: dict[ir.Value, Place] = {}
        self.named: dict[str, str] = {}  # text of an offset -> its name
        self.pointers: set[str] = set()
        self.inputs: set[str] = set()  # names of the graph's inputs and constants
        # Inputs whose addresses are taken at the top; None: they are taken where they are needed.
        self.hoisted: dict[str, None] | None = None
        self.elements: dict[str, ir.Type] = {}  # of tensors by their names
        self.typed: set[str] = set()  # views of the arena as another dtype
        self.tensors: dict[ir.Value, str] = {}
        self.swapped: dict[ir.Value, str] = {}  # matrices -> names of their transposes
        self.derived: dict[str, list[str]] = {}  # base -> names of tensors that keep its memory
        self.kept: Kept | None = None
        self.forgotten = 0  # views whose names are free again

    def own(self, value: ir.Value, name: str) -> None:
        """`value` is the tensor called `name`."""
        self.known[value] = Place(name, expr(0), True)
        self.tensors[value] = name
        self.elements[name] = value.type.element_type
        self.derived.setdefault(name, [])

    def alias(self, op: ir.Operation) -> None:
        """The result of a `bascule.view`, `memref.view`, `memref.reinterpret_cast` lies in its source's memory. Raises `UserError` for a buffer
        outside of its arena."""
        (result,) = op.results
        place, moved = self.known[op.operands[0]], displacement(op, self.sizes)
        if op.name == "memref.view":
            _check_inside(op, moved)
        self.known[result] = Place(place.base, place.offset + moved, False)

    def text(self, e: ir.AffineExpr) -> str:
        """`e` as Python."""
        return python_of(e, self.symbols)

    def offset(self, e: ir.AffineExpr) -> str:
        """`e` as Python; a long text is given a name, once."""
        text = self.text(e)
        if len(text) < LONG:
            return text
        if text not in self.named:
            self.named[text] = f"offset{len(self.named)}"
            self.source.line(f"    {self.named[text]} = {text}")
        return self.named[text]

    def pointer(self, value: ir.Value) -> str:
        """The address of the first element."""
        place = self.known[value]
        name = self.address(place.base)
        return name if place.offset == expr(0) else f"{name} + {self.offset(place.offset)}"

    def address(self, base: str) -> str:
        """The name of the address of the tensor called `base`."""
        name = f"{base}_p"
        if self.hoisted is not None and base in self.inputs:
            self.hoisted[base] = None
        elif name not in self.pointers:
            self._make(base, name, f"{base}.data_ptr()")
            self.pointers.add(name)
        return name

    def tensor(self, value: ir.Value) -> str:
        """The name of a tensor that is `value`."""
        if value not in self.tensors:
            suffix = f"v{len(self.tensors) + self.forgotten}"
            self.tensors[value] = self._view(value, self.sizes.of(value), strides(value.type), suffix)
        return self.tensors[value]

    def returned(self, value: ir.Value, how: str, number: int, steps: ir.AffineMap | None) -> str | None:
        """Writes result `number` of the function, which autograd sees as `how` tells; gives its name. `steps`: its strides, if not those of
        its type. None in memory that no tensor of its type was made for."""
        place, type_ = self.known[value], value.type
        if (
            place.base == "arena"
            or self.elements.get(place.base) != type_.element_type
            or (how == SAVED and place.whole)
        ):
            return None
        base = f"{place.base}.detach()" if how == VIEW_OF_DETACHED else place.base
        elements = ir.AffineExpr.get_floor_div(place.offset, byte_width(type_.element_type))
        text = f"{view_function(how)}({base}, {self.layout(value, steps)}, {self.offset(elements)})"
        name = f"{place.base}_result{number}"
        self.source.line(f"    {name} = {text}{'.detach()' if how == DETACHED else ''}")
        return name

    def transposed(self, value: ir.Value) -> str:
        """The name of a tensor that is `value`, a matrix, with its dimensions swapped."""
        if value not in self.swapped:
            sizes, steps = self.sizes.of(value), strides(value.type)
            suffix = f"t{len(self.swapped) + self.forgotten}"
            self.swapped[value] = self._view(value, sizes[::-1], steps[::-1], suffix)
        return self.swapped[value]

    def forget_views(self, base: str) -> list[str]:
        """Forgets the views of the tensor called `base`, so that they are made again where they are needed; gives their names."""
        names, self.derived[base] = self.derived[base], []
        for views in (self.tensors, self.swapped):
            for value in [value for value, name in views.items() if name in names]:
                del views[value]
        self.forgotten += len(names)
        return names

    def _view(
        self, value: ir.Value, sizes: Sequence[ir.AffineExpr], steps: Sequence[ir.AffineExpr], suffix: str
    ) -> str:
        """Writes the view of these sizes and strides that begins where `value` does; gives its name."""
        place, type_ = self.known[value], value.type
        base, offset = place.base, place.offset
        dtype, width = scalar_type_of(type_.element_type), byte_width(type_.element_type)
        if base == "arena" and dtype != "uint8":
            base = f"arena_{dtype}"
            if base not in self.typed:
                self._make("arena", base, f"arena.view(torch.{dtype})")
                self.typed.add(base)
        elements = offset if width == 1 else ir.AffineExpr.get_floor_div(offset, width)
        layout = f"{sizes_of(sizes, self.symbols)}, {sizes_of(steps, self.symbols)}"
        # An arena of no bytes, or a tensor of no elements in one that is kept, may have sizes that each call has anew.
        fixed = all(constant(e) is not None for e in (*sizes, *steps, elements))
        text = f"view({base}, {layout}, {self.offset(elements)})"
        name = self._make(place.base, f"{place.base}_{suffix}", text, fixed=fixed)
        self.derived[place.base].append(name)
        return name

    def _make(self, base: str, name: str, text: str, *, fixed: bool = True) -> str:
        """Writes `name = text`, of the tensor called `base`: here, or, if it is `fixed` for all calls, once where an arena that is kept is laid
        out. Gives the name."""
        if self.kept is not None and base == "arena" and fixed:
            return self.kept.made.setdefault(text, name)
        self.source.line(f"    {name} = {text}")
        return name

    def restride(self, value: ir.Value, name: str, steps: ir.AffineMap) -> None:
        """Gives a result that is no view these strides, if it is no input."""
        if self.known[value].base not in self.inputs:
            self.source.line(f"    {name}.as_strided_({self.layout(value, steps)})")

    def layout(self, value: ir.Value, steps: ir.AffineMap | None = None) -> str:
        """Sizes and strides, those of the type or `steps`: `(4, 8), (8, 1)`."""
        told = strides(value.type) if steps is None else list(steps.results)
        return f"{sizes_of(self.sizes.of(value), self.symbols)}, {sizes_of(told, self.symbols)}"
