"""Stores that go past the caches: the same elements wherever the result starts, none outside of it, on one thread and on two."""

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.dialect.scheduling.cpu.schedule_form import from_attribute
from bascule.lowering.cpu import compile_kernels

from tests.lowering.cpu.harness import call, kernel, runnable_widths

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i8": torch.int8, "i1": torch.bool}
ROWS, COLUMNS = 96, 640


def compiled(element: str, columns: int, bits: int):
    type_ = f"memref<{ROWS}x{columns}x{element}>"
    body = f"""%a = memref.load %x[%i, %j] : {type_}
        "bascule.store"(%a, %o, %j, %i) : ({element}, memref<{columns}x{ROWS}x{element}>, index, index) -> ()
        "bascule.store"(%a, %p, %i, %j) : ({element}, {type_}, index, index) -> ()"""
    arguments = f"%x: {type_}, %o: memref<{columns}x{ROWS}x{element}>, %p: {type_}"
    module = ir.Module.parse(kernel(arguments, body, f"{ROWS}, {columns}", "%i, %j"))
    ScheduleKernels(vector_bits=bits, cache_bytes=1 << 16).run(module)
    (function,) = module.body.operations
    assert from_attribute(function.regions[0].blocks[0].operations[0]).nontemporal
    return compile_kernels(module, vector_bits=bits)


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS + 1])
@pytest.mark.parametrize("element", DTYPES)
def test_results_may_start_anywhere(element, columns):
    dtype = DTYPES[element]
    x = (torch.randn(ROWS, columns, generator=torch.Generator().manual_seed(0)) * 50).to(dtype)
    for bits in runnable_widths()[:2]:
        with context():
            addresses = compiled(element, columns, bits)
        for start in (64, 65, 64 + 16 // dtype.itemsize, 64 + 32 // dtype.itemsize):
            for threads in (1, 2):
                around = [torch.full((x.numel() + 192,), 7).to(dtype) for _ in range(2)]
                inside = [each[start : start + x.numel()] for each in around]
                call(addresses.addresses["k"], [x, *inside], threads)
                assert torch.equal(inside[0].view(columns, ROWS), x.t())
                assert torch.equal(inside[1].view(ROWS, columns), x)
                for each in around:
                    assert (each[:start] == torch.tensor(7).to(dtype)).all()
                    assert (each[start + x.numel() :] == torch.tensor(7).to(dtype)).all()


def test_a_view_of_an_input_is_written():
    """Its first element is at no line: the plain stores."""
    x, y = torch.randn(1 << 22), torch.zeros((1 << 22) + 64)
    written = torch.compile(lambda x, y: y.copy_(x * 2), backend="bascule", options={"on_error": "raise"})
    for start in (0, 1, 4, 16):
        written(x, y[start : start + x.numel()])
        assert torch.equal(y[start : start + x.numel()], x * 2)
