"""What the assembler gets wrong does not reach it."""

import torch
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.assembly import without_packed_additions
from triton_check import lowered, program

aten = torch.ops.aten


def test_packed_additions_become_two():
    ptx = "mov.b32 %r1, 3;\n\tadd.s16x2 \t%r2, %r0, %r1;\n\tadd.s32 %r4, %r2, %r2;"
    apart = without_packed_additions(ptx)
    assert "16x2" not in apart and apart.count("add.s16 ") == 2
    assert apart.startswith("mov.b32 %r1, 3;") and apart.endswith("add.s32 %r4, %r2, %r2;")


def test_none_is_left_in_the_gradient_of_a_pooling():
    # LLVM makes pairs of the indices of 180 elements.
    def pool(g, x, i):
        return aten.max_pool3d_with_indices_backward(g, x, [3, 3, 3], [2, 2, 2], [0, 0, 0], [1, 2, 1], True, i)

    x, g = torch.randn(1, 2, 3, 6, 5).bfloat16(), torch.randn(1, 2, 1, 2, 2).bfloat16()
    module = program(pool, g, x, torch.zeros(1, 2, 1, 2, 2, dtype=torch.int64))
    (kernel,) = lowered(module).values()
    asm = compile_kernel(kernel, 90).asm
    assert "add.s16x2" not in asm["ptx"] and "VIADD.16x2" not in asm["sass"]
