"""Reductions and scans: every kind, along rows, along columns and over all, alone and joined."""

import math
import os
import re

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.dialect.scheduling.cpu.schedule_form import SHORT
from bascule.lowering.cpu.jit.modules import lower_kernels
from bascule.lowering.cpu.values.target import Target

from tests.lowering.cpu.harness import call, check, kernel, loop, runnable_widths, scheduled_and_compiled

RESULTS = {"welford": 3, "softmax": 2}
KINDS = ("sum", "max", "min", "argmax", "argmin")


def reduction(kind: str, type_: str, shape: str, ranges: str, indices: str, place: str, domain: str, at: str) -> str:
    """Reduces %x[place] of `shape` over `ranges`; results are stored at `at` of outputs over `domain`."""
    out_type = "i64" if kind in ("argmax", "argmin") else type_
    count = RESULTS.get(kind, 1)
    out = f"memref<{'x'.join([*(domain.split(', ') if domain else []), out_type])}>"
    values = [f"%r#{n}" for n in range(count)] if count > 1 else ["%r"]
    indices_types = ", ".join([out_type, out, *["index"] * bool(at)])
    stores = "\n".join(
        f'"bascule.store"({v}, %o{n}{", " + at if at else ""}) : ({indices_types}) -> ()' for n, v in enumerate(values)
    )
    body = f"""%a = memref.load %x[{place}] : memref<{shape}x{type_}>
        "bascule.yield"(%a) : ({type_}) -> ()"""
    types = f"({', '.join([out_type] * count)})"
    results = f"%r{f':{count}' if count > 1 else ''} = "
    inner = loop("reduce", indices, body, ranges, results=results, attributes=f'kind = "{kind}"', types=types)
    arguments = ", ".join([f"%x: memref<{shape}x{type_}>", *(f"%o{n}: {out}" for n in range(count))])
    return kernel(arguments, f"{inner}\n{stores}", domain, at)


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("size", [1, 7, 16, 17, 1000])
@pytest.mark.parametrize("kind", [*KINDS, "welford", "softmax"])
def test_rows(kind: str, size: int, bits: int):
    check(reduction(kind, "f32", f"3x{size}", str(size), "%k", "%i, %k", "3", "%i"), bits=bits)


@pytest.mark.parametrize("type_", ["i8", "i32", "i64", "f64"])
@pytest.mark.parametrize("kind", [*KINDS, "prod", "maxu", "minu"])
def test_element_types(kind: str, type_: str):
    if type_ == "f64" and kind in ("maxu", "minu"):
        pytest.skip("of integers only")
    check(reduction(kind, type_, "3x70", "70", "%k", "%i, %k", "3", "%i"))


@pytest.mark.parametrize("kind", ["any", "all", "xor", "max", "minu", "argmax"])
def test_booleans(kind: str):
    check(reduction(kind, "i1", "5x70", "70", "%k", "%i, %k", "5", "%i"))


@pytest.mark.parametrize("kind", [*KINDS, "welford", "softmax"])
@pytest.mark.parametrize("columns", [3, 70, 128])
def test_columns(kind: str, columns: int):
    check(reduction(kind, "f32", f"50x{columns}", "50", "%k", "%k, %i", str(columns), "%i"))


@pytest.mark.parametrize("kind", [*KINDS, "welford", "softmax"])
def test_over_all(kind: str):
    check(reduction(kind, "f32", "300x301", "300, 301", "%k, %l", "%k, %l", "", ""))


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("columns", [1, 15, 63, 65, 100, 127])
@pytest.mark.parametrize("kind", [*KINDS, "welford", "softmax"])
def test_rows_that_end_within_a_vector(kind: str, columns: int, bits: int):
    """Whole vectors come again after masked ones; a mean of 3 shows a wrong count."""
    text = reduction(kind, "f32", f"9x4x{columns}", f"9, {columns}", "%k, %l", "%k, %i, %l", "4", "%i")
    torch.manual_seed(0)
    count = RESULTS.get(kind, 1)
    out = torch.int64 if kind in ("argmax", "argmin") else torch.float32
    check(text, inputs=[torch.randn(9, 4, columns) + 3, *(torch.zeros(4, dtype=out) for _ in range(count))], bits=bits)


def test_nan_wins_and_ties_go_to_the_first():
    x = torch.tensor([[1.0, 5.0, 5.0, 2.0] * 10, [1.0, float("nan"), 7.0, float("nan")] * 10, [-float("inf")] * 40])
    for kind, type_ in (("max", torch.float32), ("argmax", torch.int64), ("argmin", torch.int64)):
        text = reduction(kind, "f32", "3x40", "40", "%k", "%i, %k", "3", "%i")
        check(text, inputs=[x, torch.zeros(3, dtype=type_)])


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("kind", ["max", "min"])
def test_nan_shows_in_its_row_or_column_only(kind: str, bits: int):
    """A NaN in each lane of a vector of several registers, masked lanes included, and rows and columns without one."""
    x = torch.randn(160, 75, generator=torch.Generator().manual_seed(0))
    for lane in range(75):
        x[2 * lane, lane] = float("nan")
    rows = reduction(kind, "f32", "160x75", "75", "%k", "%i, %k", "160", "%i")
    check(rows, inputs=[x, torch.zeros(160)], bits=bits)
    columns = reduction(kind, "f32", "75x160", "75", "%k", "%k, %i", "160", "%i")
    check(columns, inputs=[x.t().contiguous(), torch.zeros(160)], bits=bits)


def test_sums_are_as_precise_as_a_tree():
    """Within 4 roundings; a tree's bound is log2(n) = 20, and one running f32 sum of a million numbers loses thousands."""
    n = 1 << 20
    torch.manual_seed(0)
    text = reduction("sum", "f32", str(n), str(n), "%k", "%k", "", "")
    x = torch.rand(n)
    out = torch.zeros(())
    with context():
        compiled = scheduled_and_compiled(ir.Module.parse(text))
        call(compiled.addresses["k"], [x, out], 2)
    exact = x.double().sum()
    assert abs(out.double() - exact) <= 4 * 2**-24 * exact


def test_result_does_not_depend_on_threads():
    n = 1 << 20
    text = reduction("sum", "f32", str(n), str(n), "%k", "%k", "", "")
    x, results = torch.randn(n), []
    with context():
        compiled = scheduled_and_compiled(ir.Module.parse(text))
        for threads in (1, 2, 3):
            out = torch.zeros(())
            call(compiled.addresses["k"], [x, out], threads)
            results.append(out.item())
    assert len(set(results)) == 1


def test_joined_reductions():
    """Two reductions over the same ranges share a loop; a third needs the first and follows."""
    load = "%a = memref.load %x[%i, %k] : memref<9x50xf32>"
    body = f"""{
        loop(
            "reduce",
            "%k",
            load + '"bascule.yield"(%a) : (f32) -> ()',
            "50",
            results="%m = ",
            attributes='kind = "max"',
            types="f32",
        )
    }
        {
        loop(
            "reduce",
            "%k",
            load + '"bascule.yield"(%a) : (f32) -> ()',
            "50",
            results="%n = ",
            attributes='kind = "argmin"',
            types="i64",
        )
    }
        {
        loop(
            "reduce",
            "%k",
            load
            + '''
          %d = arith.subf %a, %m : f32
          %e = math.exp %d : f32
          "bascule.yield"(%e) : (f32) -> ()''',
            "50",
            results="%s = ",
            attributes='kind = "sum"',
            types="f32",
        )
    }
        "bascule.store"(%s, %o, %i) : (f32, memref<9xf32>, index) -> ()
        "bascule.store"(%n, %p, %i) : (i64, memref<9xi64>, index) -> ()"""
    check(kernel("%x: memref<9x50xf32>, %o: memref<9xf32>, %p: memref<9xi64>", body, "9", "%i"))


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "logaddexp", "argmax", "argmin"])
@pytest.mark.parametrize("dim,shape", [(0, "37"), (0, "19x40"), (1, "19x40")])
def test_scans(kind: str, dim: int, shape: str):
    sizes = shape.split("x")
    indices = ", ".join(f"%k{n}" for n in range(len(sizes)))
    out_type = "i64" if kind.startswith("arg") else "f32"
    tile = f"tensor<{shape}x{out_type}>"
    ranges = ", ".join(sizes)
    body = f"""{
        loop(
            "scan",
            indices,
            f'''%a = memref.load %x[{indices}] : memref<{shape}xf32>
          "bascule.yield"(%a) : (f32) -> ()''',
            ranges,
            results="%t = ",
            attributes=f'kind = "{kind}", dim = {dim} : i64',
            types=tile,
        )
    }
        {
        loop(
            "foreach",
            indices,
            f'''%b = tensor.extract %t[{indices}] : {tile}
          "bascule.store"(%b, %o, {indices}) : ({out_type}, memref<{shape}x{out_type}>, {", ".join(["index"] * len(sizes))}) -> ()
          "bascule.yield"() : () -> ()''',
            ranges,
        )
    }"""
    check(kernel(f"%x: memref<{shape}xf32>, %o: memref<{shape}x{out_type}>", body, ""))


def test_after_fork():
    """A child process runs kernels on one thread: the parent's pool is not there."""
    n = 1 << 20
    text = reduction("sum", "f32", str(n), str(n), "%k", "%k", "", "")
    x, out = torch.ones(n), torch.zeros(())
    with context():
        compiled = scheduled_and_compiled(ir.Module.parse(text))
    call(compiled.addresses["k"], [x, out], 2)
    child = os.fork()
    if child == 0:
        out.zero_()
        call(compiled.addresses["k"], [x, out], 1)
        os._exit(0 if out.item() == n else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("size", [1000, 1024, 5, 37, 128, 2048, 16384])
def test_moments_far_from_zero(size: int, bits: int):
    """Means of lanes are no less exact than the distances between them; nor are they where the first element is far from all others."""
    body = f"""{
        loop(
            "reduce",
            "%k",
            f'''%a = memref.load %x[%i, %k] : memref<9x{size}xf32>
          "bascule.yield"(%a) : (f32) -> ()''',
            str(size),
            results="%m:3 = ",
            attributes='kind = "welford"',
            types="(f32, f32, f32)",
        )
    }
        "bascule.store"(%m#0, %o, %i) : (f32, memref<9xf32>, index) -> ()
        "bascule.store"(%m#1, %p, %i) : (f32, memref<9xf32>, index) -> ()
        "bascule.store"(%m#2, %q, %i) : (f32, memref<9xf32>, index) -> ()"""
    outs = "%o: memref<9xf32>, %p: memref<9xf32>, %q: memref<9xf32>"
    x = torch.randn(9, size, generator=torch.Generator().manual_seed(size)) + 1000
    x[5:, 0] += 30000
    x[7, : size // 16] = 0  # the worst start: whole vectors of it in longer rows
    mean, squares, count = torch.zeros(9), torch.zeros(9), torch.zeros(9)
    with context():
        compiled = scheduled_and_compiled(
            ir.Module.parse(kernel(f"%x: memref<9x{size}xf32>, {outs}", body, "9", "%i")), bits
        )
    call(compiled.addresses["k"], [x, mean, squares, count], 1)
    wide = x.double()
    torch.testing.assert_close(mean[:5].double(), wide[:5].mean(1), rtol=1.2e-7, atol=0)
    torch.testing.assert_close(mean.double(), wide.mean(1), rtol=5e-7, atol=0)
    exact = [row for row in range(9) if row != 7]
    torch.testing.assert_close((squares.double() / size)[exact], wide.var(1, correction=0)[exact], rtol=1e-6, atol=0)
    torch.testing.assert_close((squares.double() / size)[7], wide[7].var(correction=0), rtol=SHORT * 2**-23, atol=0)
    assert count.tolist() == [size] * 9


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e5])
@pytest.mark.parametrize("shape", [(20000, 130), (40, 3), (1, 20)])
def test_moments_of_columns_far_from_zero(shape: tuple[int, int], mean: float):
    """Lanes are columns, each with a mean of its own that grows element by element."""
    rows, columns = shape
    inner = loop(
        "reduce",
        "%k",
        f"""%a = memref.load %x[%k, %j] : memref<{rows}x{columns}xf32>
          "bascule.yield"(%a) : (f32) -> ()""",
        str(rows),
        results="%m:3 = ",
        attributes='kind = "welford"',
        types="(f32, f32, f32)",
    )
    body = f"""{inner}
        "bascule.store"(%m#0, %o, %j) : (f32, memref<{columns}xf32>, index) -> ()
        "bascule.store"(%m#1, %p, %j) : (f32, memref<{columns}xf32>, index) -> ()
        "bascule.store"(%m#2, %q, %j) : (f32, memref<{columns}xf32>, index) -> ()"""
    arguments = f"%x: memref<{rows}x{columns}xf32>, " + ", ".join(f"%{o}: memref<{columns}xf32>" for o in "opq")
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)) + mean
    found, squares, count = (torch.full((columns,), -1.0) for _ in range(3))
    with context():
        compiled = scheduled_and_compiled(ir.Module.parse(kernel(arguments, body, str(columns), "%j")))
    call(compiled.addresses["k"], [x, found, squares, count], 1)
    wide = x.double()
    torch.testing.assert_close(found.double(), wide.mean(0), rtol=1.2e-7, atol=5e-7)
    torch.testing.assert_close(squares.double() / rows, wide.var(0, correction=0), rtol=2e-5, atol=0)
    assert count.tolist() == [rows] * columns


def test_a_condition_on_one_index_of_joined_reductions():
    """Sums of columns in one loop, of which only a later one asks where in its rows it is: the rows' two ranges are no single one."""

    def function(x, weight, bias, mix):
        hidden = torch.nn.functional.layer_norm(x, (32,), weight, bias)
        shifted = torch.nn.functional.pad(hidden, (0, 0, 1, -1))
        return (hidden * mix + shifted * (1 - mix)).square()

    torch.manual_seed(0)
    inputs = [torch.randn(2, 17, 32), torch.randn(32), torch.randn(32), torch.rand(1, 1, 32)]
    gradients = []
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    for run, dtype in ((function, torch.float64), (compiled, torch.float32)):
        own = [x.to(dtype).requires_grad_() for x in inputs]
        gradients.append(torch.autograd.grad(run(*own).sum(), own))
    for want, got in zip(*gradients):
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize(
    ("shape", "ranges", "indices", "place", "domain", "at"),
    [
        ("3x200000", "200000", "%k", "%i, %k", "3", "%i"),  # along lanes
        ("50000x3", "50000", "%k", "%k, %i", "3", "%i"),  # row after row
        ("40x3x3000", "40, 3000", "%k, %l", "%k, %i, %l", "3", "%i"),  # several loops
        ("600000", "600000", "%k", "%k", "", ""),  # shared among threads
    ],
)
@pytest.mark.parametrize("kind", ["sum", "welford", "softmax"])
def test_roundings_of_long_sums_do_not_add_up(
    kind: str, shape: str, ranges: str, indices: str, place: str, domain: str, at: str, bits: int
):
    """Equal terms: their roundings go one way as long as the sum is of one magnitude."""
    text = reduction(kind, "f32", shape, ranges, indices, place, domain, at)
    sizes = [int(size) for size in shape.split("x")]
    odd, even = {"sum": (0.1, 0.1), "welford": (0.1, -0.1), "softmax": (0.0, -2.3)}[kind]
    x = torch.full(sizes, odd)
    x.view(-1)[::2] = even  # every second one of each sum, as other ranges are odd
    outputs = [torch.full([int(domain)] if domain else [], -1.0) for _ in range(RESULTS.get(kind, 1))]
    with context():
        compiled = scheduled_and_compiled(ir.Module.parse(text), bits)
    call(compiled.addresses["k"], [x, *outputs], 2)
    terms = x.numel() // (int(domain) if domain else 1)
    of_two = {"sum": 0.2, "welford": 0.02, "softmax": 1 + math.exp(-2.3)}[kind]
    got = outputs[0 if kind == "sum" else 1].double()
    torch.testing.assert_close(got, torch.full_like(got, terms / 2 * of_two), rtol=3e-6, atol=0)


@pytest.mark.parametrize("rows, rolled", [(100, True), (4, False)])
def test_long_sums_in_lanes_stay_rolled(rows, rolled):
    """The loop over rows, inside of lanes, has LLVM's annotation; a short one has none."""
    text = reduction("sum", "f32", f"{rows}x64", str(rows), "%k", "%k, %i", "64", "%i")
    module = ir.Module.parse(text, context())
    ScheduleKernels(vector_bits=256).run(module)
    lowered = str(lower_kernels(module, Target(256))[0])
    loops = re.findall(r"scf\.for .*iter_args.*?scf\.yield [^\n]*\n\s*}( {loop_annotation)?", lowered, re.DOTALL)
    assert loops and all(bool(annotation) == rolled for annotation in loops)
