"""Generated modules: what they are given, what errors in them say, what memory they keep."""

import gc
import linecache
import threading
import traceback
import weakref
from ctypes import CFUNCTYPE, c_void_p, cast

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline
from bascule.lowering.program import to_python
from bascule.runtime import load, release_arenas
from bascule.runtime.memory import cpu_arena
from bascule.runtime.memory.allocation import laid_out

PROGRAM = """
func.func private @aten.mm(memref<4x5xf32>, memref<5x4xf32>, memref<4x4xf32>) attributes {
  bascule.extern = "aten.mm.default", bascule.out = "aten.mm.out",
  bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}
func.func private @aten.topk(memref<4x4xf32>) -> (memref<4x2xf32>, memref<4x2xi64>) attributes {
  bascule.extern = "aten.topk.default",
  bascule.arguments = [#bascule.operand<0>, 2, -1, true, true], bascule.results = array<i64: 0, 1>}
func.func @main(%a: memref<4x5xf32>, %b: memref<5x4xf32>) -> (memref<4x2xi64>) attributes {
  bascule.graph, bascule.outputs = [unit, #bascule.operand<0>, 2 : i64, #bascule.operand<0>]} {
  %0 = memref.alloc() : memref<4x4xf32>
  call @aten.mm(%a, %b, %0) : (memref<4x5xf32>, memref<5x4xf32>, memref<4x4xf32>) -> () loc("model.py":7:0)
  %1:2 = call @aten.topk(%0) : (memref<4x4xf32>) -> (memref<4x2xf32>, memref<4x2xi64>) loc("model.py":8:0)
  memref.dealloc %0 : memref<4x4xf32>
  memref.dealloc %1#0 : memref<4x2xf32>
  return %1#1 : memref<4x2xi64>
}
"""


class NoKernels:
    addresses: dict[str, int] = {}


@pytest.fixture
def program():
    with context():
        module = ir.Module.parse(PROGRAM)
        Pipeline.parse("plan-memory").run(module, verify=True)
        return to_python(module)


def test_boxed_call(program):
    call = load(program, NoKernels())
    assert call._boxed_call
    a, b = torch.randn(4, 5), torch.randn(5, 4)
    args = [a, b]
    first, indices, two, again = call(args)
    assert args == []
    assert first is None and two == 2 and again is indices
    assert torch.equal(indices, (a @ b).topk(2).indices)


def test_inputs_are_freed_after_their_last_use(program):
    lines = [line.strip() for line in program.splitlines()]
    product = next(i for i, line in enumerate(lines) if line.startswith("mm_out(in0, in1"))
    assert lines[product + 1] == "del in0, in1"


def test_operators_named_as_what_the_module_uses():
    """An operator called `view` does not hide the runtime's function."""
    text = """
    func.func private @aten.view(memref<4xf32>) -> memref<2x2xf32> attributes {
      bascule.extern = "aten.view.default", bascule.arguments = [#bascule.operand<0>, [2, 2]], bascule.results = array<i64: 0>}
    func.func @main(%a: memref<4xf32>) -> memref<2x2xf32> attributes {bascule.graph} {
      %0 = call @aten.view(%a) : (memref<4xf32>) -> memref<2x2xf32>
      return %0 : memref<2x2xf32>
    }
    """
    with context():
        source = to_python(ir.Module.parse(text))
    assert "view_1 = torch.ops.aten.view.default" in source
    assert "view_1(in0, [2, 2])" in source


def test_errors_name_the_users_line(program):
    call = load(program, NoKernels())
    with pytest.raises(RuntimeError) as raised:
        call([torch.randn(4, 5), torch.randn(6, 4)])
    assert raised.value.__notes__ == ["in the operator called at model.py:7:0"]
    text = "".join(traceback.format_exception(raised.value))
    assert "mm_out(in0, in1, out=" in text, "the traceback shows the generated line"


def test_source_on_disk(program, tmp_path):
    file = tmp_path / "wrapper.py"
    file.write_text(program)
    call = load(program, NoKernels(), file=str(file))
    with pytest.raises(RuntimeError) as raised:
        call([torch.randn(4, 5), torch.randn(6, 4)])
    assert str(file) in "".join(traceback.format_exception(raised.value))
    assert str(file) not in linecache.cache or linecache.getlines(str(file))


def test_lines_of_graphs_that_are_gone_are_forgotten(program):
    def known():
        return {name for name in linecache.cache if name.startswith("<bascule graph")}

    before = known()
    calls = [load(program, NoKernels()) for _ in range(50)]
    assert len(known() - before) == 50
    del calls
    gc.collect()
    assert known() <= before


def test_lines_of_functions_that_are_compiled_again_are_forgotten():
    def known():
        gc.collect()
        return sum(name.startswith("<bascule graph") for name in linecache.cache)

    def once(number):
        torch._dynamo.reset()
        x = torch.randn(4, requires_grad=True)
        torch.compile(lambda x: (x.sin() * number).sum(), backend="bascule")(x).backward()

    once(0)
    before = known()
    for number in range(1, 5):
        once(number)
        assert known() == before


def test_kernels_take_words_and_live_as_long_as_the_call():
    """A kernel gets symbols, addresses and the number of threads, 64 bits each."""
    received = []
    function = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)(lambda *words: received.append(words))

    class Kernels:
        addresses = {"k": cast(function, c_void_p).value}

    kernels = Kernels()
    alive = weakref.ref(kernels)
    source = 'k = kernel("k", 3)\n\ndef call(args):\n    k(*args)\n    return ()\n\nLOCATIONS = {}\n'
    call = load(source, kernels)
    del kernels
    gc.collect()
    assert alive() is not None
    call([2**40, 2**63 + 5, 7])
    assert received == [(2**40, 2**63 + 5, 7)]


def test_results_with_other_strides_than_told_are_copied():
    """Where they are: a graph on a GPU may have results on the CPU."""
    told = torch.randn(3, 4)
    assert laid_out(told, (3, 4), (4, 1)) is told
    other = torch.randn(4, 3).t()
    copied = laid_out(other, (3, 4), (4, 1))
    assert copied.device == other.device and copied.stride() == (4, 1) and torch.equal(copied, other)


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (3,)])
def test_results_of_other_sizes_than_told_are_refused(shape):
    with pytest.raises(RuntimeError, match="were asserted"):
        laid_out(torch.randn(shape), (3, 4), (4, 1))


def test_results_of_another_dtype_than_a_kernel_reads_are_refused():
    told = torch.randn(3, 4)
    assert laid_out(told, (3, 4), (4, 1), dtype=torch.float32) is told
    with pytest.raises(RuntimeError, match=r"returned torch.float32 where its fake kernel has torch.float64"):
        laid_out(told, (3, 4), (4, 1), dtype=torch.float64)


def test_results_without_elements_are_taken_as_told():
    told = torch.empty(0, 4)
    assert laid_out(told, (0, 4), (1, 1)) is told


def test_one_large_arena_is_kept_and_shared():
    release_arenas()
    large = 32 << 20
    block = cpu_arena.take_arena(large)
    nested = cpu_arena.take_arena(large)
    assert block.data_ptr() != nested.data_ptr()
    cpu_arena.give_arena(block)
    cpu_arena.give_arena(nested)
    assert cpu_arena.take_arena(large - 500).data_ptr() == block.data_ptr()
    assert cpu_arena.take_arena(large + 1000).numel() == large + 1000
    release_arenas()
    assert cpu_arena._kept == []


def test_a_small_arena_goes_back_to_the_allocator():
    release_arenas()
    block = cpu_arena.take_arena(1000)
    assert block.numel() == 1000
    cpu_arena.give_arena(block)
    assert cpu_arena._kept == []


def test_threads_do_not_share_an_arena():
    function = torch.compile(
        lambda x, w: ((x @ w).sin() @ w).cos() @ w, backend="bascule", options={"on_error": "raise"}
    )
    w = torch.randn(16, 16, dtype=torch.float64) / 4
    inputs = [torch.randn(16, 16, dtype=torch.float64) for _ in range(4)]
    wanted = [((x @ w).sin() @ w).cos() @ w for x in inputs]
    function(inputs[0], w)
    failures = []

    def work(x, y):
        for _ in range(50):
            if not torch.allclose(function(x, w), y):
                failures.append(x)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
