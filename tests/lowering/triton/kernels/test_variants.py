"""Kernels of dynamic sizes: indices of 32 bits where sizes allow them, and rows known to begin at multiples of 16 bytes."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from bascule.dialect.interpreter.maps import evaluate
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.planner import NARROW
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile.programs import lower_kernels
from bascule.runtime.kernels import launch_plans

from tests.lowering.triton.check import program

VARIANTS = {launch_plans.WIDE: "i64", launch_plans.NARROW: "i32", launch_plans.ALIGNED: "i32"}


def schedules(module: ir.Module) -> list[dict[str, ir.Attribute]]:
    kernels = filter(None, map(kernel_op, functions(module)))
    return [{e.name: e.attr for e in ir.DictAttr(kernel.attributes["schedule"].config)} for kernel in kernels]


def several(x, y):
    return F.softmax(x * y, -1).flip(0), (x + y).sum(0), x.t().reshape(-1)[3:] * 2, F.pad(x, (1, 2))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_computes_what_eager_does(variant, monkeypatch):
    made = []
    chosen = launch_plans.SizedPlan._chosen
    spy = staticmethod(lambda launch, suffix: made.append(suffix) or chosen(launch, suffix))
    monkeypatch.setattr(launch_plans.SizedPlan, "_chosen", spy)
    if variant == launch_plans.WIDE:
        monkeypatch.setattr(launch_plans, "NARROW_BELOW", 100)
    compiled = torch.compile(several, backend="bascule", dynamic=True, options={"target": "interpret"})
    for sizes in ((16, 32), (48, 64)) if variant == launch_plans.ALIGNED else ((13, 31), (6, 48)):
        x, y = torch.randn(sizes), torch.randn(sizes)
        for got, want in zip(compiled(x, y), several(x, y), strict=True):
            torch.testing.assert_close(got, want)
    assert set(made) == {variant}


def test_a_variant_is_chosen_at_each_call():
    class Planner:
        def plan(self, launches):
            return lambda stream, *slots: ran.append((launches, slots))

    ran = []
    run = launch_plans.SizedPlan(
        Planner(), [("a_0", 3, [launch_plans.size(0), launch_plans.ptr(1)]), ("b_0", 1, [launch_plans.ptr(1)])]
    )
    for reach, sizes in ((100, 48), (100, 7), ((1 << 31) - 1, 48), (launch_plans.NARROW_BELOW - 1, 16)):
        run(0, sizes, 4096, reach=reach, sizes=sizes)
    names = [[name for name, *_ in launches] for launches, _ in ran]
    assert names == [[f"a_0{suffix}", "b_0"] for suffix in ("_aligned", "_narrow", "", "_aligned")]
    assert [launches[0][2][0][3] for launches, _ in ran] == ["i32", "i32", "i64", "i32"]
    assert len(run.plans) == 3


def test_indices_have_the_bits_that_sizes_need():
    def bits(function, *inputs):
        (keys,) = schedules(program(function, *inputs))
        return keys["index_bits"].value

    def far(step):  # elements `step` apart
        return torch.empty(1, dtype=torch.int8, device="meta").as_strided((1 << 10,), (step,))

    assert bits(lambda x: x + 1, torch.randn(64, 64)) == 32
    assert bits(lambda x: x.clone(), far(1 << 20)) == 32
    assert bits(lambda x: x.clone(), far(1 << 22)) == 64
    assert bits(lambda x: x.sum(), torch.empty(1 << 16, 1 << 16, dtype=torch.int8, device="meta")[:, : 1 << 15]) == 64


def test_reach_covers_every_buffer_and_position():
    x, y = torch.randn(6, 21), torch.randn(6, 21)
    module = program(several, x, y, tracing_mode="symbolic")
    with module.context:
        found = schedules(module)
        assert all(keys["index_bits"].value == 64 and "narrow" in keys for keys in found)
        for sizes in product((2, 17, 300), repeat=2):
            for keys in found:
                bound = max(int(evaluate(e, (), sizes)) for e in keys["narrow"].value.results)
                assert bound >= sizes[0] * sizes[1] - 3


def test_what_is_divided_counts():
    """A remainder may fit where what it is taken of does not."""

    def function(x):
        return x.expand(1 << 13, *x.shape).reshape(-1)[::1025].clone()

    (keys,) = schedules(program(function, torch.randn(1 << 20)))
    assert keys["index_bits"].value == 64
    assert NARROW < 1 << 31


def test_multiples_of_16_are_read_in_one_piece():
    x = torch.randn(6, 21).bfloat16()
    module = program(lambda x: F.silu(x) + 1, x, tracing_mode="symbolic")
    kernels = lower_kernels(module).kernels
    assert len(kernels) == len(VARIANTS)
    for (suffix, type_), (name, kernel) in zip(VARIANTS.items(), kernels.items(), strict=True):
        assert name.endswith(suffix)
        text = compile_kernel(kernel, 90).asm["ptx"]
        assert ("ld.global.v4" in text) == (suffix == launch_plans.ALIGNED)
        assert f"function_type = ({type_}, {type_}, !tt.ptr" in kernel.ttir


def test_kernels_are_compiled_when_a_call_needs_them(monkeypatch):
    cuda = pytest.importorskip("bascule.runtime.kernels.cuda_driver")
    from bascule.runtime.kernels import cuda_kernels

    monkeypatch.setattr(cuda_kernels, "load_kernels", lambda images, *rest: {name: f"<{name}>" for name in images})
    monkeypatch.setattr(cuda_kernels, "Plan", list)
    asked = []

    def compiler(sources, *rest):
        asked.append([source["name"] for source in sources])
        return {source["name"]: cuda.CubinImage(b"", source["name"], 4, 0, "") for source in sources}

    later = {name: {"name": name} for kernel in ("a_0", "b_0") for name in (kernel, f"{kernel}_narrow")}
    images = {name: cuda.CubinImage(b"", name, 4, 0, "") for name in ("a_0_aligned", "b_0_aligned")}
    kernels = cuda_kernels.PlannedKernels(images, 0, later, compiler)
    for suffix in ("_aligned", "_narrow", "_narrow", ""):
        launches = kernels.plan([(f"a_0{suffix}", 1, [])])
        assert launches == [(f"<a_0{suffix}>", 1, [])]
    assert asked == [["a_0_narrow", "b_0_narrow"], ["a_0", "b_0"]]
    assert not kernels.later and len(kernels.images) == 6
