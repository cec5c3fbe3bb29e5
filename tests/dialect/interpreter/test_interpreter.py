"""The reference interpreter: reductions, memory, kernels and programs, and what it refuses."""

import math

import pytest
import torch
from bascule.dialect.interpreter import InterpreterError, interpret, random_inputs
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir


def parse(text: str) -> ir.Module:
    return ir.Module.parse(text, context())


def run(text: str, *inputs, function: str | None = None) -> list[torch.Tensor]:
    return interpret(parse(text), list(inputs), function)


REDUCE = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<4xRESULT> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r:COUNT = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<4x6xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "KIND", ranges = affine_map<() -> (6)>} : () -> (TYPES)
    "bascule.yield"(%r#WHICH) : (RESULT) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xRESULT>
  return %0 : tensor<4xRESULT>
}"""

REDUCTIONS = [
    ("sum", 1, 0, lambda x: x.double().sum(1).float()),
    ("prod", 1, 0, lambda x: x.double().prod(1).float()),
    ("max", 1, 0, lambda x: x.amax(1)),
    ("min", 1, 0, lambda x: x.amin(1)),
    ("argmax", 1, 0, lambda x: x.argmax(1)),
    ("argmin", 1, 0, lambda x: x.argmin(1)),
    ("welford", 3, 0, lambda x: x.double().mean(1).float()),
    ("welford", 3, 1, lambda x: (x.double().var(1, correction=0) * 6).float()),
    ("softmax", 2, 1, lambda x: (x - x.amax(1, keepdim=True)).double().exp().sum(1).float()),
]


@pytest.mark.parametrize("kind, count, which, reference", REDUCTIONS)
def test_reductions(kind, count, which, reference):
    x = torch.randn(4, 6)
    x[1, 3] = math.nan
    x[2, 2] = x[2, 5] = 9.0
    result = "i64" if kind.startswith("arg") else "f32"
    text = REDUCE.replace("COUNT", str(count)).replace("TYPES", ", ".join([result] * count))
    text = text.replace("KIND", kind).replace("WHICH", str(which)).replace("RESULT", result)
    torch.testing.assert_close(run(text, x)[0], reference(x), equal_nan=True)


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_a_position_among_no_points(kind):
    text = REDUCE.replace("COUNT", "1").replace("TYPES", "i64").replace("KIND", kind).replace("WHICH", "0")
    text = text.replace("RESULT", "i64").replace("(6)", "(0)").replace("4x6x", "4x0x")
    with pytest.raises(InterpreterError, match=f"of kind '{kind}' has no points to choose from"):
        run(text, torch.randn(4, 0))
    nowhere = text.replace("(4)", "(0)").replace("4x", "0x")
    assert run(nowhere, torch.randn(0, 0))[0].shape == (0,)


def test_a_constant_tensor_is_refused_at_its_line():
    text = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %c = arith.constant dense<1.0> : tensor<4xf32>
  return %x : tensor<4xf32>
}"""
    with pytest.raises(InterpreterError, match=r"3:8: 'arith\.constant' is a constant tensor"):
        run(text, torch.randn(4))


GUARDED = """
func.func @main(%x: tensor<4xf32>) -> tensor<6xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %four = arith.constant 4 : index
    %zero = arith.constant 0.0 : f32
    %inside = arith.cmpi ult, %i, %four : index
    %r = scf.if %inside -> f32 {
      %e = tensor.extract %x[%i] : tensor<4xf32>
      scf.yield %e : f32
    } else {
      scf.yield %zero : f32
    }
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (6)>} : () -> tensor<6xf32>
  return %0 : tensor<6xf32>
}"""


def test_a_guarded_read_may_be_out_of_range():
    x = torch.randn(4)
    assert run(GUARDED, x)[0].tolist() == [*x.tolist(), 0, 0]


def test_an_unguarded_read_out_of_range_is_refused_at_its_place():
    with pytest.raises(
        InterpreterError, match=r"'tensor.extract' reads out of range: index 4 of dimension 0 of size 4"
    ) as error:
        run(GUARDED.replace("ult", "ule"), torch.randn(4))
    assert error.value.location.endswith(":9:12")


LOOPS = """
func.func @main(%x: tensor<5xi64>) -> tensor<5xi64> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<5xi64>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : i64
    %next = arith.addi %i, %one : index
    %sum = scf.for %k = %zero to %next step %one iter_args(%s = %two) -> i64 {
      %f = tensor.extract %x[%k] : tensor<5xi64>
      %t = arith.addi %s, %f : i64
      scf.yield %t : i64
    }
    %bound = arith.constant 100 : i64
    %power = scf.while (%p = %sum) : (i64) -> i64 {
      %small = arith.cmpi slt, %p, %bound : i64
      scf.condition(%small) %p : i64
    } do {
    ^bb0(%p: i64):
      %q = arith.muli %p, %two : i64
      scf.yield %q : i64
    }
    "bascule.yield"(%power) : (i64) -> ()
  }) {ranges = affine_map<() -> (5)>} : () -> tensor<5xi64>
  return %0 : tensor<5xi64>
}"""


def test_loops_run_for_each_point_as_long_as_it_needs():
    x = torch.tensor([1, 5, 100, 7, 2])
    want = (x.cumsum(0) + 2).tolist()
    assert run(LOOPS, x)[0].tolist() == [next(p for p in (v * 2**k for k in range(20)) if p >= 100) for v in want]


IN_PLACE = """
func.func private @twice(%x: memref<i64>, %first: memref<i64>, %second: memref<i64>) {
  "bascule.kernel"() ({
    %e = memref.load %x[] : memref<i64>
    %ten = arith.constant 10 : i64
    %s = arith.addi %e, %ten : i64
    "bascule.store"(%s, %first) : (i64, memref<i64>) -> ()
    %t = arith.muli %e, %ten : i64
    "bascule.store"(%t, %second) : (i64, memref<i64>) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>} : () -> ()
  return
}
func.func @main(%x: memref<i64>, %y: memref<i64>) {
  func.call @twice(%x, %x, %y) : (memref<i64>, memref<i64>, memref<i64>) -> ()
  return
}"""


def test_what_was_read_stays_when_its_memory_is_written():
    x, y = torch.tensor(5), torch.tensor(0)
    with context() as ctx:
        interpret(ir.Module.parse(IN_PLACE, ctx), [x, y])
    assert (x.item(), y.item()) == (15, 50)


SCATTER = """
func.func @main(%x: tensor<3xf32>, %at: tensor<2x4xi64>, %v: tensor<2x4xf32>) -> tensor<3xf32> attributes {bascule.graph} {
  %0 = "bascule.scatter"(%x) ({
  ^bb0(%i: index, %j: index, %out: tensor<3xf32>):
    %k = tensor.extract %at[%i, %j] : tensor<2x4xi64>
    %n = arith.index_cast %k : i64 to index
    %e = tensor.extract %v[%i, %j] : tensor<2x4xf32>
    "bascule.store"(%e, %out, %n) MODE : (f32, tensor<3xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2, 4)>} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"""


@pytest.mark.parametrize("mode", ["set", "add", "mul", "min", "max"])
def test_scatter_modes(mode):
    x, v = torch.randn(3), torch.randn(2, 4)
    at = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0]])
    want = x.clone()
    combine = {"set": lambda a, b: b, "add": torch.add, "mul": torch.mul, "min": torch.minimum, "max": torch.maximum}
    for k, e in zip(at.flatten().tolist(), v.flatten()):
        want[k] = combine[mode](want[k], e)
    before = x.clone()
    torch.testing.assert_close(run(SCATTER.replace("MODE", f'{{mode = "{mode}"}}'), x, at, v)[0], want)
    assert torch.equal(x, before)


KERNEL = """
func.func private @softmax(%n: index, %x: tensor<?x8xf32, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 + d1 * s0)>>>
    {bascule.shape = affine_map<()[s0] -> (s0, 8)>})
    -> tensor<?x8xf32, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * 8 + d1)>>>
    attributes {bascule.shapes = [affine_map<()[s0] -> (s0, 8)>]} {
  %out = bufferization.alloc_tensor(%n) : tensor<?x8xf32, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * 8 + d1)>>>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %row = "bascule.compute"() ({
    ^bb0(%j: index):
      %e = tensor.extract %x[%i, %j] : tensor<?x8xf32, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 + d1 * s0)>>>
      %f = math.exp %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %row[%k] : tensor<8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %e = tensor.extract %row[%j] : tensor<8xf32>
      %f = arith.divf %e, %sum : f32
      "bascule.store"(%f, %out, %i, %j) : (f32, tensor<?x8xf32, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * 8 + d1)>>>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0)>} : () -> ()
  return %out : tensor<?x8xf32, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * 8 + d1)>>>
}"""


@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_kernel_function_with_a_tile_and_a_symbol(size):
    x = torch.randn(8, size).T
    (got,) = run(KERNEL, size, x)
    assert got.shape == (size, 8) and got.stride() == (8, 1)
    torch.testing.assert_close(got, x.softmax(1))


def test_arguments_are_checked_against_their_types():
    for bad, message in [
        (torch.randn(8, 5).T.contiguous(), r"expects strides \[1, 5\]"),
        (torch.randn(7, 5).T, "got sizes"),
        (torch.randn(8, 5).double().T, "elements of type f32"),
    ]:
        with pytest.raises(InterpreterError, match=message):
            run(KERNEL, 5, bad)


PROGRAM = """
func.func private @double(%x: memref<4xf32>, %out: memref<4xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %x[%i] : memref<4xf32>
    %f = arith.addf %e, %e : f32
    "bascule.store"(%f, %out, %i) : (f32, memref<4xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return
}
func.func @main(%x: memref<4xf32>) -> memref<4xf32> attributes {bascule.graph} {
  %arena = memref.alloc() {bascule.arena} : memref<128xi8>
  %a = arith.constant 0 : index
  %b = arith.constant SECOND : index
  %0 = memref.view %arena[%a][] : memref<128xi8> to memref<4xf32>
  %1 = memref.view %arena[%b][] : memref<128xi8> to memref<4xf32>
  %out = memref.alloc() : memref<4xf32>
  call @double(%x, %0) : (memref<4xf32>, memref<4xf32>) -> ()
  call @double(%x, %1) : (memref<4xf32>, memref<4xf32>) -> ()
  call @double(%0, %1) : (memref<4xf32>, memref<4xf32>) -> ()
  call @double(%0, %out) : (memref<4xf32>, memref<4xf32>) -> ()
  DEALLOC
  return %out : memref<4xf32>
}"""


def test_an_arena_whose_buffers_overlap_gives_wrong_numbers():
    x = torch.randn(4)
    right, wrong = (PROGRAM.replace("DEALLOC", "").replace("SECOND", str(b)) for b in (64, 0))
    torch.testing.assert_close(run(right, x)[0], 4 * x)
    assert not torch.allclose(run(wrong, x)[0], 4 * x)
    with pytest.raises(InterpreterError, match="reads what another point of the kernel writes"):
        run(PROGRAM.replace("DEALLOC", "").replace("SECOND", "8"), x)


def test_memory_is_poison_before_it_is_written_and_after_it_is_freed():
    x = torch.randn(4)
    text = PROGRAM.replace("SECOND", "64")
    assert run(text.replace("DEALLOC", "memref.dealloc %out : memref<4xf32>"), x)[0].isnan().all()
    assert run(text.replace("call @double(%x, %0)", "call @double(%x, %1)").replace("DEALLOC", ""), x)[0].isnan().all()
    with pytest.raises(InterpreterError, match="leaves a memref of 128 bytes"):
        run(text.replace("DEALLOC", "").replace("64 : index", "116 : index"), x)


def test_random_inputs_follow_types_ranges_and_layouts():
    text = """func.func @main(%n: index, %a: tensor<?x4xbf16, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 + d1 * s0)>>>
        {bascule.shape = affine_map<()[s0] -> (s0, 4)>}, %b: tensor<90xi64> {bascule.range = [3, 5]}, %c: tensor<9xui8>)
        attributes {bascule.graph, bascule.symbols = ["s7"]} { return }"""
    n, a, b, c = random_inputs(parse(text), shapes={"s7": 6})
    assert n == 6 and a.shape == (6, 4) and a.stride() == (1, 6) and a.dtype == torch.bfloat16
    assert set(b.tolist()) == {3, 4} and c.dtype == torch.uint8
    assert not torch.equal(random_inputs(parse(text), seed=1)[1], random_inputs(parse(text), seed=2)[1])


REVERSE = """
func.func private @reverse(%x: memref<2x4xf32>, %out: memref<2x4xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %k = affine.apply affine_map<(d0) -> (STEP)>(%j)
      %r = affine.apply affine_map<(d0) -> (ROW)>(%i)
      %e = memref.load %x[%r, %k] : memref<2x4xf32>
      "bascule.store"(%e, %out, %i, %j) : (f32, memref<2x4xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (4)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2)>} : () -> ()
  return
}"""


@pytest.mark.parametrize(
    "step, row, message", [("d0", "d0", None), ("3 - d0", "d0", "of the loop"), ("d0", "1 - d0", "of the kernel")]
)
def test_points_may_not_read_what_other_points_write(step, row, message):
    text, x = REVERSE.replace("STEP", step).replace("ROW", row), torch.randn(2, 4)
    run(text, x, torch.empty(2, 4))
    if message is None:
        run(text, x, x)
    else:
        with pytest.raises(InterpreterError, match=f"reads what another point {message} writes"):
            run(text, x, x)
