"""Boxes of tensor descriptors, which the hardware begins at multiples of 16 bytes alone, along memory."""

import pytest
import torch
from bascule.dialect.interpreter.errors import InterpreterError
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.lowering.triton.interpreter.boxes import Boxes
from bascule.lowering.triton.interpreter.memory import Memory


def test_sizes_of_the_launch():
    """Rows and their stride are of two numbers among the kernel's parameters: what lies beyond is 0."""
    strides = [[[16, 1]], 1]
    what = {
        "parameter": 2,
        "start": 0,
        "sizes": [[[1, 0], [1]], 16],
        "strides": strides,
        "box": [4, 16],
        "element": "f32",
    }
    x = torch.arange(1.0, 257.0).reshape(16, 16)
    boxes = Boxes.of(what, [2, 4, Memory(x)], 0)
    with context(), ir.Location.unknown():
        op = ir.Operation.create("tt.descriptor_load")
        found = boxes.load(op, [torch.tensor([1]), torch.tensor([0])], torch.tensor([True]))[0]
    assert torch.equal(found[:2], x[[4, 8]]) and not found[2:].any()


@pytest.mark.parametrize("dtype, place", [(torch.float32, 2), (torch.bfloat16, 4), (torch.float32, -1)])
def test_a_box_that_begins_between(dtype, place):
    what = {"parameter": 0, "start": 0, "sizes": [8, 64], "strides": [64, 1], "box": [4, 16], "element": "f32"}
    x = torch.arange(512.0).to(dtype).reshape(8, 64)
    boxes = Boxes.of(what, [Memory(x)], 0)
    with context(), ir.Location.unknown():
        op = ir.Operation.create("tt.descriptor_load")
        rows, active = torch.tensor([1]), torch.tensor([True])
        aligned = 16 // dtype.itemsize
        assert torch.equal(boxes.load(op, [rows, torch.tensor([aligned])], active)[0], x[1:5, aligned : aligned + 16])
        with pytest.raises(InterpreterError, match="no multiple of 16 bytes"):
            boxes.load(op, [rows, torch.tensor([place])], active)
        boxes.load(op, [rows, torch.tensor([place])], ~active)
