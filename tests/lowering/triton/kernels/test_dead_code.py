"""Kernels hold no operation that nothing takes."""

import pytest
import torch
import torch.nn.functional as F
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.lowering.triton.kernels.dead_code import erase_dead_code

from tests.lowering.triton.check import lowered, program

CASES = {
    "a window": (
        lambda x, w: F.conv2d(F.relu(x), w, padding=1, groups=8),
        torch.randn(2, 8, 9, 9).contiguous(memory_format=torch.channels_last),
        torch.randn(8, 1, 3, 3),
    ),
    "rows": (lambda x: x.softmax(-1) * x.std(-1, keepdim=True), torch.randn(7, 70)),
    "positions": (lambda x: (x.argmax(-1), x.cumsum(-1)), torch.randn(7, 70)),
}


def dead(ttir: str) -> list[str]:
    found = list[str]()
    with context(unregistered=True) as held:
        module = ir.Module.parse(ttir, held)

        def visit(op):
            if op.name.startswith(("arith.", "math.")) and not any(True for r in op.results for _ in r.uses):
                found.append(str(op))
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_result_is_taken(case):
    function, *inputs = CASES[case]
    kernels = lowered(program(function, *inputs))
    assert kernels and not any(dead(made.ttir) for made in kernels.values())


def test_what_acts_stays():
    text = """
      "tt.func"() <{function_type = (i32) -> (), sym_name = "k"}> ({
      ^bb0(%a: i32):
        %b = arith.addi %a, %a : i32
        %c = arith.muli %b, %a : i32
        "tt.assert"(%b) : (i32) -> ()
        "tt.elementwise_inline_asm"(%b) : (i32) -> i32
        "tt.return"() : () -> ()
      }) : () -> ()
    """
    with context(unregistered=True) as held:
        module = ir.Module.parse(text, held)
        erase_dead_code(module)
    left = str(module)
    assert "arith.muli" not in left and all(
        op in left for op in ("arith.addi", "tt.assert", "tt.elementwise_inline_asm")
    )
