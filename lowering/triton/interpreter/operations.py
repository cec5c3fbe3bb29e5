"""Rules for the operations of `tt` and `scf`; those of `arith` and `math` are the reference interpreter's."""

from typing import Any

import torch
from bascule.dialect.interpreter.errors import error
from bascule.dialect.interpreter.scalars import SCALARS
from bascule.dialect.interpreter.values import dtype_of
from bascule.dialect.mlir import ir

from ..values.approximations import INSTRUCTIONS, TO_TF32
from ..values.builder import SAME, element
from ..values.clusters import ARRIVE, gathering
from ..values.dependent_launch import WAIT
from ..values.libdevice import LIBDEVICE
from ..values.packed_values import PACKED, on_bytes
from .machine import Machine, Rule
from .memory import Either, Pointer, atomic, compare_and_swap, load, store
from .scalars import scalar

TF32, DROPPED = 0, 13  # the number in `inputPrecision`; the bits of an f32's fraction that TF32 does not have
_FUNCTIONS = {symbol: name for name, symbol in LIBDEVICE.items()}


def _shape(machine: Machine, type_: ir.Type) -> list[int]:
    return [machine.programs, *(type_.shape if isinstance(type_, ir.RankedTensorType) else [])]


def _constant(machine, op):
    """A scalar has no dimension of programs, so that it fits values of any shape, in the region of a reduction too."""
    type_, value = op.results[0].type, op.attributes["value"]
    number = value.get_splat_value().value if isinstance(type_, ir.RankedTensorType) else value.value
    shape = _shape(machine, type_) if isinstance(type_, ir.RankedTensorType) else []
    return [torch.full(shape, number, dtype=dtype_of(element(type_)))]


def _program(machine, op):
    return [torch.arange(machine.first, machine.first + machine.programs, dtype=torch.int32)]


def _range(machine, op):
    start, end = (op.attributes[name].value for name in ("start", "end"))
    return [torch.arange(start, end, dtype=torch.int32).expand(machine.programs, -1)]


def _reshape(change):
    """A rule that changes the shape of numbers and of pointers alike."""

    def rule(machine, op, x):
        shape = _shape(machine, op.results[0].type)
        return [x.reshaped(lambda t: change(t, shape)) if isinstance(x, Pointer | Either) else change(x, shape)]

    return rule


def _load(machine, op, pointer, mask=None, other=None):
    inside = machine.mask(pointer.offset.shape, mask)
    value = load(op, pointer, inside)
    return [value if other is None else torch.where(inside, value, other)]


def _descriptor_load(machine, op, boxes, *places):
    value = boxes.load(op, places, machine.active).reshape(_shape(machine, op.results[0].type))
    return [value.view(dtype_of(element(op.results[0].type)))]  # of floats of 8 bits memory has bytes


def _store(machine, op, pointer, value, mask=None):
    store(op, pointer, value, machine.mask(pointer.offset.shape, mask))
    return []


def _atomic(machine, op, pointer, value, mask):
    return [atomic(op, pointer, value, machine.mask(pointer.offset.shape, mask))]


def _compare_and_swap(machine, op, pointer, expected, wanted):
    return [compare_and_swap(op, pointer, expected, wanted, machine.mask(pointer.offset.shape, None))]


def _bitcast(machine, op, x):
    type_ = element(op.results[0].type)
    if isinstance(x, Pointer | Either):
        name = str(type_).removeprefix("!tt.ptr<").removesuffix(">")
        return [x.cast(dtype_of(ir.Type.parse(name)))]
    return scalar(op, "arith.bitcast", [x])


def _extern(machine, op, *operands):
    symbol = op.attributes["symbol"].value
    name = _FUNCTIONS.get(symbol) or _FUNCTIONS.get(symbol.removesuffix("f"))
    if name is None:
        raise error(op, f"calls '{symbol}', which the interpreter lacks")
    return scalar(op, name, operands)


def _instruction(machine, op, *operands):
    text = op.attributes["asm_string"].value
    if text in (WAIT, ARRIVE):  # a launch begins when the one before it has ended, and all programs at once
        return [torch.zeros(machine.programs, dtype=torch.int32)]
    if (cluster := gathering(text)) is not None:
        rows = [x.expand(machine.programs).reshape(-1, cluster) for x in operands]
        return [x[:, k].repeat_interleave(cluster) for k in range(cluster) for x in rows]
    (x,) = operands
    if (told := on_bytes(text)) is not None:
        return [_on_bytes(*told, x)]
    if text == SAME:
        return [x]
    if text.startswith(PACKED):
        return [x.to(dtype_of(element(op.results[0].type)))]
    if text == TO_TF32:
        return [tf32(x)]
    if text not in INSTRUCTIONS:
        raise error(op, f"is the instruction '{text}', which the interpreter lacks")
    return [x.reciprocal()] if INSTRUCTIONS[text] == "reciprocal" else scalar(op, INSTRUCTIONS[text], [x])


def _on_bytes(kind: str, number: int, x: torch.Tensor) -> torch.Tensor:
    if kind == "shifted":
        return (x.view(torch.uint8) >> number).view(torch.int8)
    return (x if kind == "signed" else x.view(torch.uint8)).to(torch.float32) - number


def _assert(machine, op, condition):
    failed = ~condition & machine.active.reshape([-1] + [1] * (condition.dim() - 1))
    if failed.any():
        raise error(op, op.attributes["message"].value)
    return []


def _reduce(machine, op, *state):
    """Halves onto each other, until one element is left."""
    axis, block = op.attributes["axis"].value + 1, op.regions[0].blocks[0]
    values = list(state)
    while values[0].shape[axis] > 1:
        half = values[0].shape[axis] // 2
        parts = [value.split(half, axis) for value in values]
        values = machine.block(block, [part[0] for part in parts] + [part[1] for part in parts])
    return [value.squeeze(axis) for value in values]


def _scan(machine, op, *state):
    """Each step combines with what stands 1, 2, 4, ... places before."""
    axis, block = op.attributes["axis"].value + 1, op.regions[0].blocks[0]
    values, distance, extent = list(state), 1, state[0].shape[op.attributes["axis"].value + 1]
    while distance < extent:
        before = [value.narrow(axis, 0, extent - distance) for value in values]
        later = [value.narrow(axis, distance, extent - distance) for value in values]
        combined = machine.block(block, before + later)
        values = [torch.cat([v.narrow(axis, 0, distance), c], axis) for v, c in zip(values, combined)]
        distance *= 2
    return values


def _for(machine, op, lower, upper, step, *carried):
    """Until no program has steps left; one that has none keeps what it carries."""
    block, values, outer = op.regions[0].blocks[0], list(carried), machine.active
    at = lower
    while bool((running := outer & (at < upper)).any()):
        machine.active = running
        after = machine.block(block, [at, *values])
        values = [_either(running, new, old) for new, old in zip(after, values)]
        at = at + step
    machine.active = outer
    return values


def _if(machine, op, condition):
    outer, branches = machine.active, []
    for region, chosen in zip(op.regions, (condition, ~condition)):
        machine.active = outer & chosen
        branches.append(machine.block(region.blocks[0]) if len(region.blocks) else [])
    machine.active = outer
    return [_either(condition, a, b) for a, b in zip(*branches)]


def _while(machine, op, *carried):
    """Programs that are done keep what they passed on last."""
    before, after = (region.blocks[0] for region in op.regions)
    outer, values, passed = machine.active, list(carried), None
    while True:
        condition, *found = machine.block(before, values)
        passed = found if passed is None else [_either(machine.active, new, old) for new, old in zip(found, passed)]
        machine.active = machine.active & condition
        if not machine.active.any():
            break
        values = [_either(machine.active, new, old) for new, old in zip(machine.block(after, passed), values)]
    machine.active = outer
    return passed


def _select(machine, op, condition, a, b):
    return [Either(condition, a, b)] if isinstance(a, Pointer | Either) else scalar(op, op.name, [condition, a, b])


def _transpose(machine, op, x):
    return [x.permute(0, *(dim + 1 for dim in op.attributes["order"]))]


def _dot(machine, op, x, y, total):
    """Sums in f64, rounded once: tensor cores round more often, in no order that is told. Those of integers wrap. Factors of f32 are rounded as
    the descriptor or the instruction does that brings them; tensor cores alone drop the bits."""
    if x.dtype == torch.float32 and op.attributes["inputPrecision"].value == TF32:
        x, y = map(tf32, (x, y))
    if not total.is_floating_point():
        return [(total.long() + (x.double() @ y.double()).long()).to(total.dtype)]
    return [(total.double() + x.double() @ y.double()).to(total.dtype)]


def tf32(x: torch.Tensor) -> torch.Tensor:
    """`x` to the nearest number of 10 bits of fraction, ties to the larger magnitude; NaN and infinities stay."""
    bits = x.contiguous().view(torch.int32)
    rounded = ((bits + (1 << (DROPPED - 1))) & -(1 << DROPPED)).view(torch.float32)
    return torch.where(x.isfinite(), rounded, x)


def _either(condition: torch.Tensor, a: Any, b: Any) -> Any:
    if isinstance(a, Pointer | Either):
        return Either(condition, a, b)
    return torch.where(condition.reshape([-1] + [1] * (a.dim() - 1)), a, b)


RULES: dict[str, Rule] = {
    "arith.constant": _constant,
    "arith.select": _select,
    "tt.get_program_id": _program,
    "tt.make_range": _range,
    "tt.splat": _reshape(lambda t, shape: t.reshape([-1] + [1] * (len(shape) - 1)).expand(shape)),
    "tt.broadcast": _reshape(lambda t, shape: t.expand(shape)),
    "tt.expand_dims": _reshape(lambda t, shape: t.reshape(shape)),
    "tt.join": lambda machine, op, x, y: [torch.stack([x, y], -1)],
    "tt.split": lambda machine, op, x: list(x.unbind(-1)),
    "tt.reshape": _reshape(lambda t, shape: t.reshape(shape)),
    "tt.trans": _transpose,
    "tt.dot": _dot,
    "tt.addptr": lambda machine, op, pointer, by: [pointer.moved(by)],
    "tt.load": _load,
    "tt.descriptor_load": _descriptor_load,
    "tt.store": _store,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _compare_and_swap,
    "tt.bitcast": _bitcast,
    "tt.ptr_to_int": lambda machine, op, pointer: [pointer.address],
    "tt.fp_to_fp": lambda machine, op, x: [_fp_to_fp(op, x)],
    "tt.extern_elementwise": _extern,
    "tt.elementwise_inline_asm": _instruction,
    "tt.precise_divf": lambda machine, op, x, y: scalar(op, "arith.divf", [x, y]),
    "tt.precise_sqrt": lambda machine, op, x: scalar(op, "math.sqrt", [x]),
    "tt.mulhiui": lambda machine, op, x, y: [_high(op, x, y)],
    "tt.assert": _assert,
    "tt.reduce": _reduce,
    "tt.scan": _scan,
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
}


def _fp_to_fp(op: ir.Operation, x: torch.Tensor) -> torch.Tensor:
    """Between floats of 8 bits and others; as the GPU's instruction, to the largest number where it is exceeded."""
    dtype = dtype_of(element(op.results[0].type))
    if dtype.itemsize > 1:
        return x.to(dtype)
    limit = torch.finfo(dtype).max
    return torch.where(x.isnan(), x, x.clamp(-limit, limit)).to(dtype)


def _high(op: ir.Operation, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return SCALARS["arith.mului_extended"](op, x, y)[1]
