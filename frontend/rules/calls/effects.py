"""Operators with an effect: the mutation of an input, and checks that sizes have passed already."""

from bascule.dialect.ir import builders
from bascule.dialect.mlir import ir

from ...conversion.registry import NoRule, rule


@rule("aten.copy_.default")
def copy_(c, dest, value, non_blocking):
    """AOTAutograd's write of a mutated input's final value, at the end of an inference graph."""
    if not isinstance(dest.owner, ir.Block):
        raise NoRule("writes to a tensor that is not an input")
    if (value.type.shape, value.type.element_type) != (dest.type.shape, dest.type.element_type):
        raise NoRule("converts or broadcasts")
    builders.copy_into(value, dest)
    return dest
