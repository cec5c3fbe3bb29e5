"""Types of fake tensors: the torch dialect type, the sizes, and the layout that eager gives a value."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import sympy
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir import LayoutAttr
from bascule.dialect.ir.scalar_types import SCALAR_TYPES
from bascule.dialect.ir.shapes import Size, expr, index_map, row_major, size_map, tensor_type
from bascule.dialect.mlir import ir

from bascule.compat.tensors.pytree import tree_leaves

from .symbol_sources import sympy_of
from .symbols import Symbols
from .sympy_trees import is_whole

# dtype -> element type as the torch dialect writes it
_ELEMENTS = {
    getattr(torch, name): f"s{element}" if element[0] == "i" and element != "i1" else element
    for name, (_, element) in SCALAR_TYPES.items()
    if hasattr(torch, name)
}
SCALAR_TYPE_NUMBERS = {getattr(torch, name): n for name, (n, _) in SCALAR_TYPES.items() if hasattr(torch, name)}


def refusal(value: object) -> str | None:
    """Why a tensor is one that the IR has no type for; None for one that it has, and for what is not a tensor."""
    if not isinstance(value, torch.Tensor):
        return None
    if value.layout != torch.strided:
        return f"a tensor of layout {value.layout} is not taken"
    if value.is_neg():
        return "a tensor whose memory holds the negatives of its elements is not taken"
    return None if value.dtype in _ELEMENTS else f"a tensor of dtype {value.dtype} is not taken"


class TensorTypes:
    """Types, sizes and layouts of fake tensors; equal ones are made once."""

    def __init__(self, symbols: Symbols):
        self.symbols = symbols
        self.element = ir.F32Type.get()  # any: a layout does not depend on it
        self.types: dict[tuple, ir.Type] = {}
        self.layouts: dict[tuple, LayoutAttr | None] = {}

    def type(self, value: torch.Tensor) -> ir.Type:
        """`!torch.vtensor<[2,?],f32>`. Raises `UnsupportedError` for a tensor that is sparse, quantized or of an unusual dtype."""
        if (reason := refusal(value)) is not None:
            raise UnsupportedError(reason)
        sizes = ",".join(str(size) if isinstance(size, int) else "?" for size in map(sympy_of, value.shape))
        key = (value.dtype, sizes)
        if key not in self.types:
            self.types[key] = ir.Type.parse(f"!torch.vtensor<[{sizes}],{_ELEMENTS[value.dtype]}>")
        return self.types[key]

    def layout(self, value: torch.Tensor) -> LayoutAttr | None:
        """The layout of `value`; None where it is static and row-major."""
        key = (*map(sympy_of, value.shape), *map(sympy_of, value.stride()))
        if key not in self.layouts:
            strides = [self.symbols.stride(stride) for stride in value.stride()]
            self.layouts[key] = tensor_type(self.sizes(value), self.element, strides).encoding
        return self.layouts[key]

    def unit_strides(self, value: torch.Tensor) -> ir.AffineMap | None:
        """The strides of `value`, where those of its dimensions of size 1 are not as its type has them (`shapes.tensor_type`)."""
        steps = [expr(self.symbols.stride(stride)) for stride in value.stride()]
        sizes = [expr(size) for size in self.sizes(value)]
        if all(size != expr(1) or step == kept for size, step, kept in zip(sizes, steps, row_major(sizes))):
            return None
        return index_map(0, steps)

    @staticmethod
    def is_dynamic(value: torch.Tensor) -> bool:
        """Whether a size is symbolic. A `SymInt` need not be: guards taken after it was made may have fixed it."""
        return any(not isinstance(sympy_of(size), int) for size in value.shape)

    def sizes(self, value: torch.Tensor) -> list[Size]:
        return [self.symbols.affine(size) for size in value.shape]

    def shape(self, value: torch.Tensor) -> ir.AffineMapAttr:
        """The sizes as `affine_map<()[s0] -> (s0, 32)>`."""
        return ir.AffineMapAttr.get(size_map(self.sizes(value)))

    def complete_symbols(self, values: Iterable[Any]) -> None:
        """Makes all symbols that the nodes' `values` need, which become arguments of the function."""
        for value in values:
            for leaf in tree_leaves(value):
                with suppress(UnsupportedError):  # raised again where the node is imported
                    match leaf:
                        case torch.Tensor() if leaf.layout == torch.strided:
                            self.layout(leaf)
                        case torch.SymInt() | torch.SymBool():
                            self.symbols.affine(leaf)
                        case torch.SymFloat():
                            self._integers(leaf.node.expr)
        self.symbols.complete = True

    def _integers(self, found: sympy.Expr) -> None:
        if is_whole(found):
            self.symbols.affine(found)
        else:
            for part in found.args:
                self._integers(part)
