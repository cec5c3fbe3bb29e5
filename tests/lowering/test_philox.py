"""`bascule.random` on the CPU and in Triton: the numbers that the reference interpreter gives, whatever the lanes and tiles."""

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.lowering.triton import ToTriton, TritonKernel, compile_kernel, triton_kernels
from bascule.lowering.triton.interpreter import Memory, run_kernel

from tests.lowering.cpu.harness import check, interpreted, kernel, runnable_widths
from tests.lowering.triton import check as triton_check

aten = torch.ops.aten
KINDS = {"f32": "uniform", "f64": "uniform", "i32": "bits", "i64": "bits"}

# ranges, position of (d0, d1), whether Triton's neighbours share a counter (of four, of two)
PLACES = {
    "rows": ("6, 128", "d0 * 128 + d1", (True, True)),
    "ragged rows": ("6, 41", "d0 * 41 + d1", (True, True)),  # one index: the buffer is as dense
    "rows apart": ("6, 41", "d0 * 64 + d1", (False, False)),
    "rows apart by one": ("6, 41", "d0 * 51 + d1", (False, False)),
    "from two on": ("6, 128", "d0 * 128 + d1 + 2", (False, True)),
    "from four on": ("6, 128", "d0 * 128 + d1 + 4", (True, True)),
    "from one on": ("6, 128", "d0 * 128 + d1 + 1", (False, False)),
    "columns": ("6, 128", "d1 * 6 + d0", (False, False)),
    "every second": ("6, 128", "d0 * 256 + d1 * 2", (False, False)),
    "far": ("6, 128", f"d0 * 128 + d1 + {2**34}", (True, True)),
    "one row for all": ("6, 128", "d1", (False, False)),
    "one for all": ("6, 128", "d1 * 0 + 5", (False, False)),
}


def text(place: str, type_: str, distribution: str) -> str:
    ranges, position, _ = PLACES[place]
    buffer = f"memref<{ranges.replace(', ', 'x')}x{type_}>"
    seed = "memref<3xi64>"
    body = f"""
        %two = arith.constant 2 : index
        %seed = memref.load %s[%two] : {seed}
        %at = affine.apply affine_map<(d0, d1) -> ({position})>(%i, %j)
        %r = "bascule.random"(%seed, %at) {{distribution = "{distribution}"}} : (i64, index) -> {type_}
        "bascule.store"(%r, %out, %i, %j) : ({type_}, {buffer}, index, index) -> ()"""
    return kernel(f"%s: {seed}, %out: {buffer}", body, ranges, "%i, %j")


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("place", PLACES)
def test_on_the_cpu(place, bits):
    for type_, distribution in KINDS.items():
        check(text(place, type_, distribution), bits=bits)
    check(text(place, "f32", "normal"), bits=bits)


def triton(source: str) -> TritonKernel:
    module = ir.Module.parse(source)
    ScheduleKernels(target="cuda").run(module)
    ToTriton().run(module)
    (made,) = triton_kernels(module)
    return made


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("type_", KINDS)
def test_in_triton(place, type_):
    source = text(place, type_, KINDS[type_])
    rows, columns = map(int, PLACES[place][0].split(","))
    dtype = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32, "i64": torch.int64}[type_]
    with context(), ir.Location.unknown():
        seeds, out = torch.tensor([1, 2, -(2**62) + 99]), torch.zeros(rows, columns, dtype=dtype)
        _, want = interpreted(ir.Module.parse(source), [seeds, out])
        made = triton(source)
        assert ("tt.join" in made.ttir) == PLACES[place][2][type_.endswith("64")], "whether counters are shared"
        run_kernel(made, [Memory(seeds), Memory(out, written=False)])
        assert torch.equal(out, want)


# function, inputs: whose wider memory accesses may not make Triton move the numbers between threads, or draw them twice
SHARED = {
    "mask beside f32": (lambda x: aten.native_dropout(x, 0.1, True), [torch.randn(64, 1024)]),
    "mask beside bf16": (lambda x: aten.native_dropout(x, 0.1, True), [torch.randn(64, 1024, dtype=torch.bfloat16)]),
    "rows": (
        lambda x, w: (
            (y := aten.native_dropout(x, 0.1, True))[1],
            aten.native_layer_norm(y[0] + x, [1024], w, w, 1e-5)[0],
        ),
        [torch.randn(64, 1024, dtype=torch.bfloat16), torch.randn(1024, dtype=torch.bfloat16)],
    ),
    "normal": (lambda x: torch.randn_like(x), [torch.randn(64, 1024)]),
    "f64": (lambda x: torch.rand_like(x), [torch.randn(64, 1024, dtype=torch.float64)]),
}


@pytest.mark.parametrize("case", SHARED)
def test_a_counter_is_computed_once(case):
    function, inputs = SHARED[case]
    (made,) = triton_check.lowered(triton_check.program(function, *inputs)).values()
    layouts = compile_kernel(made, 90).asm["ttgir"]
    assert "ttg.convert_layout" not in layouts
    rounds = layouts.count("arith.muli") - layouts.count("arith.muli %pid")
    assert made.ttir.count("tt.join") and rounds <= 2 * 10 + 8, "drawn once, not once for each layout"
