"""Refusals of the TTIR interpreter, and of the lowering."""

import pytest
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.lowering.triton import ToTriton, TritonKernel, triton_kernels
from bascule.lowering.triton.interpreter import InterpreterError, Memory, run_kernel, share
from bascule.runtime.memory.poisoned_memory import PATTERN

from tests.lowering.triton.check import edit, lowered

KERNEL = """
#loc = loc("model.py":12:4)
func.func private @k(%x: memref<{source}xf32>, %out: memref<{dest}xf32>) {{
  "bascule.kernel"() ({{
  ^bb0(%i: index):
    {body}
    "bascule.yield"() : () -> ()
  }}) {{ranges = affine_map<() -> (100)>}} : () -> ()
  return
}}
"""
LOAD = "%e = memref.load %x[%i] : memref<100xf32> loc(#loc)\n"
STORE = '"bascule.store"(%e, %out, {at}) {mode} : (f32, memref<{dest}xf32>, index) -> () loc(#loc)'


def kernel(
    body: str, source: int = 100, dest: int = 100, element: str = "f32", dest_element: str | None = None
) -> TritonKernel:
    with context(), ir.Location.unknown():
        text = KERNEL.format(body=body, source=source, dest=dest).replace("f32", element)
        if dest_element is not None:
            text = text.replace(f"%out: memref<{dest}x{element}>", f"%out: memref<{dest}x{dest_element}>")
        module = ir.Module.parse(text)
        ScheduleKernels(target="cuda").run(module)
        edit(module, tile=32)
        return lowered(module)["k"]


def store(at: str = "%i", mode: str = "", dest: int = 100) -> str:
    return STORE.format(at=at, mode=mode, dest=dest)


def test_runs():
    x, out = torch.randn(100), torch.empty(100)
    run_kernel(kernel(LOAD + store()), [Memory(x), Memory(out, written=False)])
    assert torch.equal(x, out)


def test_out_of_bounds():
    with pytest.raises(InterpreterError, match=r"model.py:12:4.*'tt.load' is out of bounds in program 3"):
        run_kernel(kernel(LOAD + store()), [Memory(torch.randn(99)), Memory(torch.empty(100))])


def test_gaps_of_a_strided_buffer_are_out_of_bounds():
    with pytest.raises(InterpreterError, match="out of bounds"):
        run_kernel(kernel(LOAD + store()), [Memory(torch.randn(200)[::2]), Memory(torch.empty(100))])


def test_unwritten_memory():
    with pytest.raises(InterpreterError, match=r"model.py:12:4.*memory that nothing wrote"):
        run_kernel(kernel(LOAD + store()), [Memory(torch.randn(100), written=False), Memory(torch.empty(100))])


def test_two_programs_at_one_place():
    zero = "%c0 = arith.constant 0 : index\n"
    with pytest.raises(InterpreterError, match="without an atomic"):
        run_kernel(kernel(zero + LOAD + store(at="%c0")), [Memory(torch.randn(100)), Memory(torch.empty(100))])
    out = torch.zeros(100)
    run_kernel(kernel(zero + LOAD + store(at="%c0", mode='{mode = "add"}')), [Memory(torch.ones(100)), Memory(out)])
    assert out[0] == 100


def test_reading_what_another_program_writes():
    back = "%j = affine.apply affine_map<(d0) -> (99 - d0)>(%i)\n"
    buffer = Memory(torch.randn(100))
    with pytest.raises(InterpreterError, match="another program"):
        run_kernel(kernel(back + LOAD + store(at="%j")), [buffer, buffer])


REFUSED = {
    "unknown": (LOAD + "%c = arith.constant 1 : i32\n%p = math.ctpop %c : i32 loc(#loc)\n" + store(), "'math.ctpop'"),
    "after": (LOAD + store() + "\n%b = memref.load %out[%i] : memref<100xf32> loc(#loc)", "after a store"),
    "hazard": (
        "%j = affine.apply affine_map<(d0) -> (99 - d0)>(%i)\n%e = memref.load %out[%j] : memref<100xf32>\n" + store(),
        "reads a buffer where it does not store it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_place(case):
    body, message = REFUSED[case]
    with pytest.raises(UnsupportedError, match=message) as caught:
        kernel(body)
    assert case == "hazard" or caught.value.location == "model.py:12:4"


@pytest.mark.parametrize(("element", "dtype"), [("complex<f32>", torch.complex64), ("complex<f64>", torch.complex128)])
def test_complex_elements_are_moved_as_their_bits(element, dtype):
    source, dest = torch.randn(100, dtype=dtype), torch.empty(100, dtype=dtype)
    run_kernel(kernel(LOAD + store(), element=element), [Memory(source), Memory(dest, written=False)])
    assert torch.equal(source, dest)


def test_a_word_of_a_complex_number_that_nothing_wrote():
    source, dest = torch.randn(100, dtype=torch.complex128), torch.empty(100, dtype=torch.complex128)
    with pytest.raises(InterpreterError):
        run_kernel(kernel(LOAD + store(), element="complex<f64>"), [Memory(source, written=False), Memory(dest)])


def test_text_for_triton_has_no_attributes_of_ours():
    with context(), ir.Location.unknown():
        module = ir.Module.parse(KERNEL.format(body=LOAD + store(), source=100, dest=100))
        ScheduleKernels(target="cuda").run(module)
        ToTriton().run(module)
        (made,) = triton_kernels(module)
    assert "bascule" not in made.ttir


def shared(made: TritonKernel, *tensors: torch.Tensor) -> None:
    buffers = [Memory(tensor) for tensor in tensors]
    share(buffers)
    run_kernel(made, buffers)


def test_buffers_that_overlap_are_one_to_the_checks():
    memory = torch.zeros(200)
    copy = kernel(LOAD + store())
    shared(copy, memory[:100], memory[100:])
    shared(copy, memory[:100], memory[:100].view(100))  # a program stores where it has read itself
    with pytest.raises(InterpreterError, match=r"model.py:12:4.*another program"):
        shared(copy, memory[:100], memory[1:101])


def test_buffers_that_overlap_may_differ_in_their_elements():
    memory = torch.zeros(200)
    halves = memory.view(torch.float16)
    rounded = "%h = arith.truncf %e : f32 to f16\n" + store().replace("%e", "%h").replace("f32", "f16")
    rounding = kernel(LOAD + rounded, dest_element="f16")
    shared(rounding, memory[:100], halves[200:300])
    with pytest.raises(InterpreterError, match="another program"):
        shared(rounding, memory[:100], halves[100:200])


@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        (torch.float32, "f32"),
        (torch.float64, "f64"),
        (torch.int64, "i64"),
        (torch.int32, "i32"),
        (torch.bfloat16, "bf16"),
        (torch.int16, "i16"),
        (torch.int8, "i8"),
        (torch.bool, "i1"),
    ],
    ids=str,
)
def test_memory_that_begins_with_junk(dtype, element):
    """An element that still has the pattern was not written."""
    memory = torch.frombuffer(bytearray(PATTERN * 102), dtype=torch.uint8)
    memory = memory[-memory.data_ptr() % 8 :]
    source, dest = memory[:800].view(dtype)[:100], torch.empty(100, dtype=dtype)
    made = kernel(LOAD + store(), element=element)
    left = 8 // dtype.itemsize if dtype not in (torch.float32, torch.float64) else 1  # a word
    first = (100 - left) // left * left
    source[:first] = source[first + left :] = 1
    with pytest.raises(InterpreterError, match=rf"model.py:12:4.*memory that nothing wrote, element {first}"):
        run_kernel(made, [Memory(source, junk=PATTERN), Memory(dest)])
    source[first] = 0
    run_kernel(made, [Memory(source, junk=PATTERN), Memory(dest)])
    assert dest[first - 1] == 1 and dest[first] == 0
