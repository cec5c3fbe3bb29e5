"""Rules for where values live: views and allocations of tensors, and the memrefs of the program stage."""

import torch

from ..ir.types import byte_width
from ..mlir import ir
from .errors import error
from .frame import Frame, rule
from .maps import evaluate
from .structure import checked, empty, read, write
from .values import Buffer, byte_room, dtype_of, fill_poison, fresh, layout_strides, same_strides, signed

DYNAMIC = ir.ShapedType.get_dynamic_size()


@rule("bascule.view")
def view(frame, op, operands, scope):
    """An alias where the source's strides seen through the map are those of the result's type, else a copy."""
    (source,) = operands
    sizes, map_ = frame.sizes(op.attributes["shape"].value), op.attributes["map"].value
    inner, dims = scope.inside(sizes)
    indices = [torch.as_tensor(evaluate(e, dims, frame.symbols)) for e in map_.results]
    if 0 not in sizes:
        checked(op, "reads", getattr(source, "tensor", source).shape, indices, inner)
    if isinstance(source, Buffer):
        return [Buffer(_alias(op, source.tensor, sizes, indices), source.origin)]
    result = empty(frame, op, op.results[0].type, sizes)
    if torch.Size(sizes).numel() == 0:
        return [result]
    alias = _strided_alias(source, sizes, indices)
    if alias is not None and same_strides(alias, result.stride()):
        return [alias]
    signed(result).copy_(read(op, source, indices, inner))
    return [result]


def _strided_alias(source: torch.Tensor, sizes: list[int], indices: list[torch.Tensor]) -> torch.Tensor | None:
    """`source` at `indices` (a tensor of each of `sizes`' points) as a strided view, if it is one."""
    offsets = torch.zeros((), dtype=torch.int64)
    for index, stride in zip(indices, source.stride()):
        offsets = offsets + index * stride
    offsets = offsets.expand(sizes)
    start = int(offsets[(0,) * len(sizes)])
    strides = [
        int(offsets[tuple(int(k == i) for k in range(len(sizes)))]) - start if size > 1 else 1
        for i, size in enumerate(sizes)
    ]
    plan = torch.full(sizes, start)
    for i, (size, stride) in enumerate(zip(sizes, strides)):
        plan = plan + (torch.arange(size) * stride).reshape([size] + [1] * (len(sizes) - 1 - i))
    if min(strides, default=0) < 0 or not torch.equal(plan, offsets):
        return None
    return source.as_strided(sizes, strides, source.storage_offset() + start)


def _alias(op: ir.Operation, source: torch.Tensor, sizes: list[int], indices: list[torch.Tensor]) -> torch.Tensor:
    if torch.Size(sizes).numel() == 0:
        return source.new_empty(sizes)
    alias = _strided_alias(source, sizes, indices)
    if alias is None:
        raise error(op, "of a memref is not a strided alias of it")
    return alias


@rule("bascule.copy_into")
def copy_into(frame, op, operands, scope):
    value, dest = (getattr(operand, "tensor", operand) for operand in operands)
    signed(dest).copy_(signed(value.clone()))


@rule("bufferization.alloc_tensor")
def alloc_tensor(frame, op, operands, scope):
    sizes, copied, _ = op.attributes["operandSegmentSizes"]
    if not copied:
        return [empty(frame, op, op.results[0].type, _result_sizes(frame, op, operands[:sizes]))]
    init = operands[sizes]
    result = empty(frame, op, op.results[0].type, list(init.shape))
    signed(result).copy_(signed(init))
    return [result]


def _result_sizes(frame: Frame, op: ir.Operation, dynamic: list) -> list[int]:
    """The sizes of a destination: its type's; where dynamic, those of the function's result that it becomes."""
    type_ = op.results[0].type
    if type_.has_static_shape:
        return list(type_.shape)
    result = op.results[0]
    for use in result.uses:
        if use.owner.operation.name == "func.return":
            return frame.sizes_of_results[use.operand_number]
    if dynamic:
        return _sizes(type_, dynamic)
    raise error(op, "of dynamic size is not returned, so its size is not known")


def _sizes(type_: ir.ShapedType, dynamic: list) -> list[int]:
    rest = iter(dynamic)
    return [int(next(rest)) if type_.is_dynamic_dim(i) else type_.get_dim_size(i) for i in range(type_.rank)]


@rule("tensor.empty")
def tensor_empty(frame, op, operands, scope):
    return [empty(frame, op, op.results[0].type, _sizes(op.results[0].type, operands))]


@rule("tensor.dim", "memref.dim")
def dim(frame, op, operands, scope):
    source, number = operands
    return [torch.tensor(getattr(source, "tensor", source).shape[int(number)])]


@rule("tensor.cast", "memref.cast")
def cast(frame, op, operands, scope):
    return operands


def _memref_layout(frame: Frame, op: ir.Operation, type_: ir.MemRefType) -> tuple[list[int], int]:
    try:
        return layout_strides(type_, frame.symbols)
    except ValueError as reason:
        raise error(op, str(reason)) from None


@rule("memref.alloc", "memref.alloca")
def alloc(frame, op, operands, scope):
    type_ = op.results[0].type
    sizes = _sizes(type_, operands[: op.attributes["operandSegmentSizes"][0]])
    strides, offset = _memref_layout(frame, op, type_)
    return [Buffer(fresh(sizes, type_.element_type, strides, offset), 0)]


@rule("memref.dealloc")
def dealloc(frame, op, operands, scope):
    """Poisons the memory, so that a use after this shows."""
    storage = operands[0].tensor.untyped_storage()
    fill_poison(torch.empty(0, dtype=torch.uint8).set_(storage))


@rule("memref.view")
def memref_view(frame, op, operands, scope):
    arena, shift, *dynamic = operands
    type_, data = op.results[0].type, arena.tensor
    sizes, (strides, offset) = _sizes(type_, dynamic), _memref_layout(frame, op, type_)
    width = byte_width(type_.element_type)
    start = data.storage_offset() + int(shift) * byte_room()
    if start % (width * byte_room()):
        raise error(op, f"starts at byte {start // byte_room()}, which is not a multiple of the element's {width}")
    used = width * (1 + sum((n - 1) * s for n, s in zip(sizes, strides))) if 0 not in sizes else 0
    if int(shift) < 0 or int(shift) + used > data.numel():
        raise error(op, f"of {used} bytes at {int(shift)} leaves a memref of {data.numel()} bytes")
    whole = torch.empty(0, dtype=torch.uint8).set_(data.untyped_storage())
    dtype = dtype_of(type_.element_type)
    typed, first = whole[: len(whole) // dtype.itemsize * dtype.itemsize].view(dtype), start // dtype.itemsize
    return [Buffer(typed.as_strided(sizes, strides, first + offset), first)]


@rule("memref.reinterpret_cast")
def reinterpret_cast(frame, op, operands, scope):
    source, *dynamic = operands
    rest = iter(dynamic)
    offset, sizes, strides = (
        [int(next(rest)) if value == DYNAMIC else value for value in op.attributes[name]]
        for name in ("static_offsets", "static_sizes", "static_strides")
    )
    start = source.origin + offset[0]
    end = start + 1 + sum((n - 1) * s for n, s in zip(sizes, strides))
    room = source.tensor.untyped_storage().nbytes() // source.tensor.element_size()
    if 0 not in sizes and not (start >= 0 and end <= room):
        raise error(op, f"of elements {start} to {end} leaves a memory of {room} elements")
    return [Buffer(source.tensor.as_strided(sizes, strides, start), source.origin)]


@rule("memref.load")
def load(frame, op, operands, scope):
    return [read(op, operands[0].tensor, operands[1:], scope)]


@rule("memref.store")
def store(frame, op, operands, scope):
    value, dest, *indices = operands
    write(op, dest.tensor, value, indices, scope)


@rule("memref.copy")
def copy(frame, op, operands, scope):
    source, dest = operands
    signed(dest.tensor).copy_(signed(source.tensor.clone()))
