"""PyTorch's scalar types: the number that an operator's `dtype` argument holds, and the element type of a tensor of it.

An argument `dtype` of an ATen operator is this number wherever the IR holds one (`torch.constant.int`, `bascule.arguments`). The torch
dialect writes signed integers as `si64`; tensors of the later stages write them signless.
"""

from ..mlir import ir

# name in `torch` -> (number, element type)
SCALAR_TYPES: dict[str, tuple[int, str]] = {
    "uint8": (0, "ui8"),
    "int8": (1, "i8"),
    "int16": (2, "i16"),
    "int32": (3, "i32"),
    "int64": (4, "i64"),
    "float16": (5, "f16"),
    "float32": (6, "f32"),
    "float64": (7, "f64"),
    "complex32": (8, "complex<f16>"),
    "complex64": (9, "complex<f32>"),
    "complex128": (10, "complex<f64>"),
    "bool": (11, "i1"),
    "bfloat16": (15, "bf16"),
    "float8_e5m2": (23, "f8E5M2"),
    "float8_e4m3fn": (24, "f8E4M3FN"),
    "float8_e5m2fnuz": (25, "f8E5M2FNUZ"),
    "float8_e4m3fnuz": (26, "f8E4M3FNUZ"),
    "uint16": (27, "ui16"),
    "uint32": (28, "ui32"),
    "uint64": (29, "ui64"),
    "float8_e8m0fnu": (44, "f8E8M0FNU"),
    "float4_e2m1fn_x2": (45, "f4E2M1FN"),
}
_NAMES = {number: name for name, (number, _) in SCALAR_TYPES.items()}
# element type -> name in `torch`
ELEMENTS = {element: name for name, (_, element) in SCALAR_TYPES.items()}


def element_type(number: int) -> ir.Type:
    """The element type of tensors of scalar type `number`, in the current context."""
    return ir.Type.parse(SCALAR_TYPES[_NAMES[number]][1])


def scalar_type_name(number: int) -> str:
    """`float32` for 6: the attribute of `torch` that is the dtype."""
    return _NAMES[number]


def scalar_type_number(element: ir.Type) -> int:
    """6 for `f32`: what an operator takes as the `dtype` of tensors with elements of type `element`."""
    return SCALAR_TYPES[ELEMENTS[str(element)]][0]


def scalar_type_of(element: ir.Type) -> str:
    """`float32` for `f32`: the dtype of tensors with elements of type `element`."""
    return ELEMENTS[str(element)]
