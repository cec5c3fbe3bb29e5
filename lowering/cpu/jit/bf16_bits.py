"""Every bf16 as its 16 bits, before LLVM sees it.

A bf16 is only moved and bitcast here (`values/narrow_floats.py` computes with its bits), and LLVM may not be asked to move one: where a
processor has no registers for it, a branch or a selection that gives one becomes f32 and back, by a function of a library that is not there.
"""

import torch
from bascule.dialect.mlir import ir


def bf16_to_bits(module: ir.Module) -> None:
    """Retypes all values of bf16, and vectors of them, as i16. Bitcasts from and to i16 go."""
    bits = ir.IntegerType.get_signless(16)
    casts = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        for region in op.regions:
            for block in region:
                _retype(block.arguments, bits)
        if _retype(op.results, bits) and op.name == "arith.constant":
            op.attributes["value"] = _bits_of(op.attributes["value"], op.results[0].type)
        if op.name == "arith.bitcast":
            casts.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in casts:
        if op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _retype(values: ir.OpResultList | ir.BlockArgumentList, bits: ir.Type) -> bool:
    """Whether there was one."""
    found = False
    for value in values:
        type_ = value.type
        if isinstance(type_, ir.BF16Type):
            value.set_type(bits)
        elif isinstance(type_, ir.VectorType) and isinstance(type_.element_type, ir.BF16Type):
            value.set_type(ir.VectorType.get(type_.shape, bits))
        else:
            continue
        found = True
    return found


def _bits_of(attribute: ir.Attribute, type_: ir.Type) -> ir.Attribute:
    """Of a constant: each is a splat."""
    vector = isinstance(type_, ir.VectorType)
    number = (attribute.get_splat_value() if vector else attribute).value
    element = type_.element_type if vector else type_
    integer = ir.IntegerAttr.get(element, int(torch.tensor(number).bfloat16().view(torch.int16)))
    return ir.DenseElementsAttr.get_splat(type_, integer) if vector else integer
