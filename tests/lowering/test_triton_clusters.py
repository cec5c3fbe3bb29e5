"""Rows that the programs of a cluster hold together: read once, though no program could hold one."""

import re

import pytest
import torch
import torch.nn.functional as F
from bascule.dialect.interpreter.errors import InterpreterError
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.lowering.triton import TritonKernel, compile_kernel
from bascule.lowering.triton.assembly import with_directives
from bascule.lowering.triton.clusters import BEGUN, told_by
from bascule.lowering.triton.interpreter import Memory, run_kernel
from triton_check import TOLERANCE, lowered, program, run

import bascule

FEW = 16384  # registers of a multiprocessor: a program holds 5120 of them
LENGTHS = [20480, 20011, 40960]  # four programs of five tiles, the same with a ragged end, eight


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def by_largest(x):
    return x / x.abs().amax(1, keepdim=True)


def compared(module, function, *inputs, tolerance: dict | None = None) -> TritonKernel:
    """The program is one kernel of clusters that reads each row once, and gives what eager gives."""
    (kernel,) = lowered(module).values()
    assert kernel.cluster > 1 and "scf.for" not in kernel.ttir
    want = function(*inputs)
    for got, w in zip(run(module, list(inputs)), want if isinstance(want, tuple) else (want,), strict=True):
        torch.testing.assert_close(got, w, equal_nan=True, **(tolerance or TOLERANCE.get(w.dtype, {})))
    return kernel


def shared(function, *inputs, tolerance: dict | None = None) -> TritonKernel:
    return compared(program(function, *inputs, registers=FEW), function, *inputs, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_over_their_largest(length, dtype):
    x = torch.randn(40, length).to(dtype)
    x[1, :9000] = -torch.inf
    x[2, 70] = torch.nan
    assert shared(by_largest, x).cluster == (8 if length > 20480 else 4)


def test_normalized_rows():
    x, w, b = torch.randn(40, LENGTHS[1]) * 3 + 100, torch.randn(LENGTHS[1]), torch.randn(LENGTHS[1])
    shared(lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), x, w, b, tolerance={"rtol": 1e-4, "atol": 1e-4})


def test_rows_of_several_dims():
    x, w = torch.randn(40, 5, 64, 64), torch.randn(5)
    shared(lambda x, w: x / x.square().mean((1, 2, 3), keepdim=True).sqrt() * w[None, :, None, None], x, w)


def test_results_of_a_row_are_written_beside_it():
    """A maximum, its place, a sum of integers and a condition: of 32 and 64 bits and of one, each once a row."""
    x = torch.randint(-1000, 1000, (40, LENGTHS[1]))

    def function(x):
        largest, place = x.amax(1, keepdim=True), x.argmax(1, keepdim=True)
        return largest, place, (x > 998).any(1, keepdim=True), x - largest + place

    shared(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.logsumexp(1),
        lambda x: (x.sum(1), x.amax(1)),
        lambda x: F.softmax(x, -1),
        lambda x: by_largest(x - x.mean(1, keepdim=True)),
        lambda x: x.cumsum(1) - x.amax(1, keepdim=True),
        lambda x: x[:, :8000] - x[:, :8000].amax(1, keepdim=True),
    ],
    ids=["only reduced", "read once", "a softmax", "reduced twice", "a scan", "short"],
)
def test_rows_that_are_not_shared(function):
    kernels = lowered(program(function, torch.randn(40, LENGTHS[0]), registers=FEW))
    assert {kernel.cluster for kernel in kernels.values()} == {1}


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_gpu_without_clusters_and_rows_of_any_length(dynamic):
    mode = {"tracing_mode": "symbolic"} if dynamic else {"capability": 80}
    (kernel,) = lowered(program(by_largest, torch.randn(40, 20011), registers=FEW, **mode)).values()
    assert kernel.cluster == 1 and "scf.for" in kernel.ttir


def test_few_rows_have_more_programs():
    assert [shared(by_largest, torch.randn(n, 20480)).cluster for n in (40, 80)] == [4, 4]
    module = program(by_largest, torch.empty(40, 65536, device="meta"))
    assert next(iter(lowered(module).values())).cluster == 8


@pytest.mark.parametrize("capability", [90, 100])
def test_machine_code(capability):
    x = torch.empty(4096, 131072, device="meta", dtype=torch.bfloat16)
    (kernel,) = lowered(program(by_largest, x, capability=capability)).values()
    assert kernel.cluster == 8
    asm = compile_kernel(kernel, capability).asm
    assert ".explicitcluster\n.reqnctapercluster 8, 1, 1\n" in asm["ptx"]
    assert len(re.findall(r"\bld\.global\S*v4", asm["ptx"])) == 8  # 64 elements a thread, once
    assert "UCGABAR" in asm["sass"]


def scheduled(function=by_largest, **numbers):
    module = program(function, torch.randn(40, 20480), registers=FEW)
    with module.context:
        (kernel,) = filter(None, map(kernel_op, functions(module)))
        text = str(kernel.attributes["schedule"])
        for name, number in numbers.items():
            text = re.sub(rf"\b{name} = [\w<>:, ]*?(?=[,}}] \w|}})", f"{name} = {number}", text)
        kernel.attributes["schedule"] = type(kernel.attributes["schedule"]).parse(text)
    return module


def held_by_hand(function, x):
    """The program of `function`, whose rows of 20480 are held by clusters of four in tiles of 1024."""
    module = program(function, x, registers=FEW)
    with module.context:
        (kernel,) = filter(None, map(kernel_op, functions(module)))
        text = str(kernel.attributes["schedule"])
        assert "cluster" not in text
        text = re.sub(r"fold = \d+", "fold = 0", re.sub(r"step = \d+", "held = true, step = 1024", text))
        text = text.replace("capability = 90", "capability = 90, cluster = 4")
        kernel.attributes["schedule"] = type(kernel.attributes["schedule"]).parse(text)
    return module


def test_reductions_that_wait_for_each_other():
    """The programs meet three times."""
    x = torch.randn(40, LENGTHS[0])

    def function(x):
        x = x - x.mean(1, keepdim=True)
        x = x / x.abs().amax(1, keepdim=True)
        return x * x.square().sum(1, keepdim=True)

    compared(held_by_hand(function, x), function, x, tolerance={"rtol": 1e-4, "atol": 1e-4})


def test_a_state_of_two_numbers():
    """A maximum and the sum of exponentials about it, from one walk."""
    x = torch.randn(40, LENGTHS[0])
    x[1, :9000] = -torch.inf
    kernel = compared(held_by_hand(lambda x: F.softmax(x, -1), x), lambda x: F.softmax(x, -1), x)
    assert kernel.ttir.count("tells the others: 32 32 bits") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cluster": 3}, "clusters of 3 programs"),
        ({"cluster": 16}, "clusters of 16 programs"),
        ({"capability": 80}, "clusters of 4 programs for sm_80"),
        ({"step": 64}, "20480 points in tiles of 64"),
        ({"held": "false"}, "one row held in parts"),
        ({"tile": "array<i64: 2>"}, "one row held in parts"),
    ],
)
def test_schedules_that_do_not_fit(change, message):
    with pytest.raises(bascule.UserError, match=message):
        lowered(scheduled(**change))


def kernel(body: str, programs: int) -> TritonKernel:
    from bascule.dialect.ir import context
    from bascule.dialect.mlir import ir

    text = f""""tt.func"() <{{function_type = (!tt.ptr<i32>, !tt.ptr<i32>) -> (), sym_name = "k", sym_visibility = "public"}}> ({{
    ^bb0(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>):
      %p = "tt.get_program_id"() <{{axis = 0 : i32}}> : () -> i32
      {body}
      "tt.return"() : () -> ()
    }}) : () -> ()"""
    with context():
        return TritonKernel("k", text, ir.AffineMap.get(0, 0, [ir.AffineExpr.get_constant(programs)]), 4, 1)


def test_programs_that_do_not_all_meet_are_refused():
    text = next(
        match
        for k in lowered(scheduled()).values()
        for match in re.findall(r'asm_string = "((?:[^"\\]|\\.)*)"', k.ttir)
        if "tells" in match
    )
    told = f'asm_string = "{text}", constraints = ""'
    body = f"""
      %zero = "arith.constant"() <{{value = 0 : i32}}> : () -> i32
      %first = "arith.cmpi"(%p, %zero) <{{predicate = 0 : i64}}> : (i32, i32) -> i1
      "scf.if"(%first) ({{
        %a:4 = "tt.elementwise_inline_asm"(%p) <{{{told}, packed_element = 1 : i32, pure = false}}>
          : (i32) -> (i32, i32, i32, i32)
        "scf.yield"() : () -> ()
      }}, {{
      }}) : (i1) -> ()"""
    buffers = [Memory(torch.zeros(8, dtype=torch.int32)) for _ in range(2)]
    with pytest.raises(InterpreterError, match="not all of them reach"):
        run_kernel(kernel(body, 8), buffers)


def test_texts():
    assert told_by(BEGUN) is None and told_by("ex2.approx.ftz.f32 $0, $1;") is None
    entry = ".reqntid 128\n{"
    assert with_directives(entry, 1, 0) == entry
    assert with_directives(entry, 2, 0) == ".reqntid 128\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{"
    assert with_directives(entry, 1, 3) == ".reqntid 128\n.minnctapersm 3\n{"
