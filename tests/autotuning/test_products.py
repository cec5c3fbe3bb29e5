"""`max_autotune` of products: a kernel is chosen by the times of programs, which are made up here; kernels run in the interpreter."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.products.expand_products import ExpandProducts
from bascule.dialect.scheduling.gpu.tuned_products import ProductSchedule
from torch.nn import functional as F

import bascule
from bascule.autotuning.product_programs import CALLS, ProductPrograms
from bascule.autotuning.products import _judged, _read, _written
from bascule.compiler import compile_graph
from bascule.options import make_options
from bascule.reporting.compile_record import Record
from tests.autotuning.products import explained, gpu, matrices, remarks_of

__all__ = ["gpu"]

SIZES = (64, 48), (80, 48), (80,), (64, 80)


def kernel_is(faster):
    """Times of programs, of which `faster`, by name, is the only fast one."""
    return lambda name: 1.0 if name == faster else 2.0


def layer(x, w, b, r):
    return F.gelu(F.linear(x, w, b)) + r


def test_the_fastest_kernel_is_chosen_with_what_follows(gpu):
    asked = gpu(kernel_is("kernel 1"))
    graph = explained(layer, *matrices(*SIZES))
    (kernel,) = graph.kernels
    assert not graph.aten and set(kernel.operators) == {"aten.addmm.default", "aten.gelu.default", "aten.add.Tensor"}
    (told,) = remarks_of(graph)
    assert "is a kernel, as measured: 64x48x80: the call, with what follows, takes 2000.0 us; the fastest of" in told
    assert " 1000.0 us (" in told
    assert list(asked[0])[:3] == [CALLS, "kernel 0", "kernel 1"] and len(asked[0]) <= 13
    assert len(asked) == 1, "the second compile finds it in the cache"


def test_the_kernel_has_the_schedule_that_was_measured(gpu, tmp_path):
    asked = gpu(kernel_is("kernel 2"))
    explained(layer, *matrices(*SIZES), dump=str(tmp_path / "dump"))
    measured = schedules(str(asked[0]["kernel 2"]))
    assert measured != schedules(str(asked[0]["kernel 0"]))
    file = next((tmp_path / "dump").glob("*/*-schedule-kernels.mlir"))
    assert schedules(file.read_text()) == measured


def schedules(text):
    return [
        line[line.index("#bascule.schedule") : line.index("}>")] for line in text.splitlines() if "#bascule.sch" in line
    ]


@pytest.mark.parametrize(("kernels", "calls"), [(2.0, 1.0), (0.99, 1.0), ("refused", 1.0), (None, 1.0)], ids=str)
def test_the_call_stays(gpu, kernels, calls):
    """Kernels that are slower, hardly faster, that fail, or that are much slower."""
    gpu(lambda name: calls if name == CALLS else kernels)
    graph = explained(layer, *matrices(*SIZES))
    assert [call.operator for call in graph.aten] == ["aten.addmm.default"]
    (told,) = remarks_of(graph)
    assert "stays a call, as measured: 64x48x80: the call, with what follows, takes 1000.0 us" in told
    assert ("none of" in told) == (not isinstance(kernels, float)) and ("that failed" in told) == (kernels == "refused")


def test_errors_of_candidates_are_not_chosen(gpu):
    errors = {"kernel 0": "OutOfMemoryError: no room", "kernel 1": "CompilerError: shared memory"}
    gpu(lambda name: errors.get(name, 2.0 if name == CALLS else 1.0))
    (told,) = remarks_of(graph := explained(layer, *matrices(*SIZES)))
    assert not graph.aten and "not chosen: 2 that failed, " in told and "OutOfMemoryError: no room" in told


@pytest.mark.parametrize("times", [lambda name: "DriverError: lost" if name == CALLS else 1.0], ids=["the call fails"])
def test_where_the_calls_fail_nothing_is_chosen(gpu, times):
    gpu(times)
    (told,) = remarks_of(graph := explained(layer, *matrices(*SIZES)))
    assert len(graph.aten) == 1 and told.endswith("is chosen by the model: 64x48x80: not measured: DriverError: lost")


@pytest.mark.parametrize("where", ["compiling", "measuring"])
def test_an_error_of_what_measures_is_no_failure_of_the_user(gpu, monkeypatch, where):
    from bascule.compiler import compile_graph
    from tests.autotuning.products import tuners

    gpu(lambda name: 1.0)

    def begin(programs, device, cached):
        if where == "compiling":
            raise ValueError("of a pass\nand more")
        raise_ = {}.__getitem__
        return lambda: raise_("a device")

    monkeypatch.setattr(compile_graph, "_tuners", lambda target, record: tuners(record, begin))
    (told,) = remarks_of(explained(layer, *matrices(*SIZES)))
    assert (
        "is chosen by the model: 64x48x80: not measured: "
        + ("ValueError: of a pass" if where == "compiling" else "KeyError")
        in told
    )


def test_equal_products_are_measured_once(gpu):
    asked = gpu(kernel_is("kernel 0"))
    x, w, v = matrices((64, 48), (48, 48), (48, 48))
    graph = explained(lambda x, w, v: F.relu(F.relu(x @ w) @ v), x, w, v)
    assert len(asked) == 1 and not graph.aten and graph.launches if hasattr(graph, "launches") else len(asked) == 1
    assert len(remarks_of(graph)) == 2 and sum(kernel.calls for kernel in graph.kernels) == 2


def test_products_that_are_kernels_are_not_fused_with_each_other(gpu):
    """`fuse-products` would compute the first again for every tile of the second's columns."""
    gpu(kernel_is("kernel 0"))
    graph = explained(lambda x, w, v: F.gelu(x @ w) @ v, *matrices((64, 48), (48, 80), (80, 32)))
    assert not graph.aten and sum(kernel.calls for kernel in graph.kernels) == 2
    assert not any("products fused" in str(remark) for remark in graph.remarks)


def test_products_of_one_matrix_stay_launches_of_their_own(gpu):
    gpu(kernel_is("kernel 0"))
    graph = explained(lambda x, w, v: (x @ w, x @ v), *matrices((64, 48), (48, 80), (48, 80)))
    assert sum(kernel.calls for kernel in graph.kernels) == 2 and graph.kernels[0].domain == "64 x 80"


def test_what_follows_two_products_is_computed_with_one(gpu):
    """The second would be in one kernel with the first, which nobody measured."""
    gpu(kernel_is("kernel 0"))
    graph = explained(lambda x, w, y, v: (x @ w) * (y @ v), *matrices((64, 48), (48, 80), (64, 32), (32, 80)))
    assert len(graph.aten) == 1 and graph.aten[0].calls == 1
    assert any("what follows is computed with another product" in told for told in remarks_of(graph))


PARTS = {
    "a part": lambda x, w: (x @ w)[:, :75].clone(),
    "a part, gelu": lambda x, w: F.gelu((x @ w)[3:, :75]),
    "every other row": lambda x, w: F.silu((x @ w)[::2]) + 1,
    "heads": lambda x, w: (x @ w).view(4, 16, 5, 16).transpose(1, 2).contiguous(),
    "transposed": lambda x, w: (x @ w).t().exp(),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_kernel_stores_what_one_compute_reads_of_it(gpu, name):
    """Nothing is copied: a vocabulary that was padded is cut, heads lie as they are read."""
    asked = gpu(kernel_is("kernel 0"))
    graph = explained(PARTS[name], *matrices((64, 48), (48, 80)))
    assert asked and not graph.aten and sum(kernel.calls for kernel in graph.kernels) == 1
    assert len(remarks_of(graph)) == 1


def test_a_part_that_is_reduced_is_a_kernel_behind_it(gpu):
    gpu(kernel_is("kernel 0"))
    graph = explained(lambda x, w: (x @ w)[:, :75].float().softmax(-1).to(x.dtype), *matrices((64, 48), (48, 80)))
    assert not graph.aten and sum(kernel.calls for kernel in graph.kernels) == 2


def test_a_result_that_is_returned_too(gpu):
    asked = gpu(kernel_is("kernel 0"))
    graph = explained(lambda x, w: ((h := x @ w), F.silu(h)), *matrices((64, 48), (48, 80)))
    assert not graph.aten and len(graph.kernels) == 1
    assert "-> (memref<64x80xbf16>, memref<64x80xbf16>)" in str(asked[0][CALLS])


def test_what_waits_for_more_than_the_product_is_not_measured_with_it(gpu):
    """The product that multiplies its softmax needs the call's result in memory."""
    asked = gpu(kernel_is("kernel 0"))
    explained(lambda x, w, v: F.relu(x @ w) + (F.relu(x @ w) @ v), *matrices((64, 48), (48, 80), (80, 80)))
    assert all(str(programs[CALLS]).count("call @aten") == 1 for programs in asked)


def test_views_between_keep_their_strides(gpu):
    asked = gpu(kernel_is("kernel 0"))
    x, w, b = matrices((4, 16, 48), (80, 48), (80,))
    graph = explained(lambda x, w, b: F.silu(F.linear(x[:, :, :40].reshape(64, 40), w[:, :40], b)), x, w, b)
    assert not graph.aten and len(graph.kernels) == 1
    assert "memref<4x16x48xbf16>" in str(asked[0][CALLS]) and "memref<80x48xbf16>" in str(asked[0][CALLS])


@pytest.mark.parametrize(
    ("why", "function", "inputs"),
    [
        ("few rows", torch.matmul, matrices((4, 64), (64, 48))),
        ("a short sum", torch.matmul, matrices((64, 8), (8, 48))),
        ("f64", torch.matmul, matrices((64, 32), (32, 48), dtype=torch.float64)),
        ("no product", lambda x, w: x + w, matrices((64, 32), (64, 32))),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_is_not_measured(gpu, why, function, inputs):
    asked = gpu(kernel_is("kernel 0"))
    explained(function, *inputs)
    assert not asked


def test_joined_products_stay_joined(gpu):
    """One kernel of both by the model; nobody measures each."""
    asked = gpu(kernel_is("kernel 0"))
    x, w, v = matrices((1056, 64), (1032, 64), (1032, 64))
    graph = explained(lambda x, w, v: F.silu(F.linear(x, w)) * F.linear(x, v), x, w, v)
    assert not asked and not graph.aten


def test_f32_without_what_follows_is_ruled_out_by_the_model(gpu):
    asked = gpu(kernel_is("kernel 0"))
    (told,) = remarks_of(explained(torch.matmul, *matrices((64, 48), (48, 80), dtype=torch.float32)))
    assert not asked and "is chosen by the model: 64x48x80: not measured: in f32, without tensor cores" in told


def test_f32_where_tf32_is_allowed(gpu):
    """Tensor cores take it: it is measured as other products are, and its sum says how it is multiplied."""
    asked = gpu(kernel_is("kernel 0"))
    torch.set_float32_matmul_precision("high")
    try:
        graph = explained(torch.matmul, *matrices((64, 48), (48, 80), dtype=torch.float32))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert not graph.aten and len(graph.kernels) == 1
    assert 'bascule.input_precision = "tf32"' in str(asked[0]["kernel 0"])


def test_f32_of_short_sums_with_what_follows(gpu):
    asked = gpu(kernel_is("kernel 0"))
    graph = explained(lambda x, w: F.silu(x @ w), *matrices((64, 20), (20, 80), dtype=torch.float32))
    assert asked and not graph.aten and len(graph.kernels) == 1


def test_roundings_of_eager_are_kept(gpu):
    asked = gpu(kernel_is("kernel 0"))
    graph = explained(layer, *matrices(*SIZES), numerics="eager")
    assert asked and not graph.aten and len(graph.kernels) == 1
    assert "roundingmode" in str(asked[0]["kernel 0"]) or "arith.truncf" in str(asked[0]["kernel 0"])


def test_a_gpu_without_such_tensor_cores(gpu, monkeypatch):
    from tests.autotuning import products

    old = SimpleNamespace(name="cuda", index=0, machine={"target": "cuda", "capability": 75})
    monkeypatch.setattr(products, "GPU", old)
    asked = gpu(kernel_is("kernel 0"))
    (told,) = remarks_of(graph := explained(layer, *matrices(*SIZES)))
    assert not asked and len(graph.aten) == 1
    assert told.endswith("not measured: no kernel of tensor cores can take it, with what is computed from it")


def test_dropout_and_masks_go_along(gpu):
    """Seeds and masks are tensors of integers and truth values that a program is given."""
    asked = gpu(kernel_is("kernel 0"))
    graph = explained(lambda x, w, r: torch.where(r > 0, F.gelu(x @ w), r), *matrices((64, 48), (48, 80), (64, 80)))
    assert asked and not graph.aten and len(graph.kernels) == 1
    torch._dynamo.reset()
    options = {"target": "interpret", "on_error": "raise", "max_autotune": True}
    dropped = bascule.explain(lambda x, w: F.dropout(x @ w, 0.5), *matrices((64, 48), (48, 80)), options=options)
    assert (len(asked) == 2 and not dropped.graphs[0].aten) or "as measured" in str(dropped)


def test_a_product_of_widened_matrices_is_one_of_16_bits(gpu):
    """The call multiplies f32, and what widens is measured with it; the kernel reads 16 bits, whose products it sums unrounded."""
    asked = gpu(kernel_is("kernel 0"))
    x, w = matrices((64, 48), (48, 64))
    graph = explained(lambda x, w: x.float() @ w.float(), x, w)
    (made,) = asked
    assert not graph.aten and len(graph.kernels) == 1
    assert "call @aten.mm(%" in str(made[CALLS]) and "memref<64x48xf32>" in str(made[CALLS])
    assert "memref<64x48xbf16>" in str(made["kernel 0"]) and "memref<64x48xf32>" not in str(made["kernel 0"])


def test_batches(gpu):
    gpu(kernel_is("kernel 1"))
    graph = explained(lambda x, w: torch.bmm(x, w).relu(), *matrices((3, 40, 48), (3, 48, 56)))
    assert not graph.aten and "is a kernel, as measured: 3 of 40x48x56" in remarks_of(graph)[0]


def test_when_the_seconds_are_spent_the_rest_stays_calls(gpu):
    asked = gpu(kernel_is("kernel 0"))
    (told,) = remarks_of(graph := explained(layer, *matrices(*SIZES), max_autotune_seconds=0))
    assert not asked and len(graph.aten) == 1
    assert told.endswith("is chosen by the model: 64x48x80: not measured: the 0 s of max_autotune_seconds were spent")


def test_deterministic_algorithms_leave_products_to_the_model(gpu):
    asked = gpu(kernel_is("kernel 0"))
    torch.use_deterministic_algorithms(True)
    try:
        graph = explained(layer, *matrices(*SIZES))
    finally:
        torch.use_deterministic_algorithms(False)
    assert not asked and len(graph.aten) == 1


def test_the_largest_product_is_measured_first(gpu, monkeypatch):
    from bascule.autotuning import session

    asked = gpu(kernel_is("kernel 0"))
    monkeypatch.setattr(session.Session, "is_over", property(lambda self: bool(asked)))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    graph = explained(lambda x, w, y, v: (x @ w, y @ v), *matrices((32, 32), (32, 32), (64, 48), (48, 80)))
    assert len(asked) == 1 and [call.operator for call in graph.aten] == ["aten.mm.default"]
    assert sorted("as measured: 64x48x80" in told for told in remarks_of(graph)) == [False, True]


def test_what_was_found_is_kept_on_disk(gpu):
    """Another graph with an equal product measures nothing, nor does a budget of no seconds keep it from what is known."""
    asked = gpu(kernel_is("kernel 1"))
    x, w, b, r = matrices(*SIZES)
    explained(layer, x, w, b, r)
    graph = explained(lambda x, w, b, r: (layer(x, w, b, r), r.exp()), x, w, b, r, max_autotune_seconds=0)
    assert len(asked) == 1 and not graph.aten and "as measured" in remarks_of(graph)[0]
    explained(lambda x, w, b, r: F.silu(F.linear(x, w, b)) + r, x, w, b, r)
    explained(lambda x, w, b, r: layer(x, w.t().contiguous().t(), b, r), x, w, b, r)
    assert len(asked) == 3, "what follows, and strides, are another case"


def test_another_process_finds_it(tmp_path):
    program = Path(__file__).with_name("products_process.py")
    runs = [
        subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, timeout=300)
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    first, second = (run.stdout.split("\n", 1) for run in runs)
    assert (first[0], second[0]) == ("measured 1", "measured 0") and first[1] == second[1]


def test_without_the_cache_nothing_is_kept(gpu):
    asked = gpu(kernel_is("kernel 1"))
    explained(layer, *matrices(*SIZES), cache=False)
    assert len(asked) == 2


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[1]", b'{"schedule": 3, "saved": 1, "told": ""}', b"\xff"])
def test_what_is_no_entry_is_measured_again(content):
    assert _read(content) is None


def test_an_entry_is_read_as_it_was_written():
    schedule = ProductSchedule((64, 128), 64, 4, 3, 8, (0, 1))
    made = ProductPrograms({}, {"kernel 0": schedule})
    found = _judged({CALLS: 2.0, "kernel 0": 1.0}, made, followed=True)
    assert _read(_written(found)) == found and found.schedule == schedule and found.saved == 1.0


def test_without_the_option_nothing_is_measured(gpu):
    asked = gpu(kernel_is("kernel 0"))
    graph = explained(layer, *matrices(*SIZES), max_autotune=False)
    assert not asked and len(graph.aten) == 1


@pytest.mark.parametrize("value", [-1, "60", None, True])
def test_the_option_takes_seconds(value):
    with pytest.raises(Exception, match="max_autotune_seconds"):
        bascule.explain(torch.sin, torch.randn(3), options={"max_autotune_seconds": value})


def test_products_on_a_cpu_stay_calls():
    graph = bascule.explain(
        torch.matmul, *matrices((64, 48), (48, 80)), options={"max_autotune": True, "cache": False}
    ).graphs[0]
    assert len(graph.aten) == 1 and graph.untuned


def test_a_graph_by_chunks_of_rows_is_not_measured(gpu):
    asked = gpu(kernel_is("kernel 0"))
    text = """
      func.func private @aten.mm(tensor<64x48xbf16>, tensor<48x80xbf16>) -> tensor<64x80xbf16> attributes {bascule.extern = "aten.mm.default",
        bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
      func.func @main(%x: tensor<64x48xbf16>, %w: tensor<48x80xbf16>) -> tensor<64x80xbf16> attributes {
          bascule.graph, bascule.chunk_rows = 1 : i64} {
        %0 = call @aten.mm(%x, %w) : (tensor<64x48xbf16>, tensor<48x80xbf16>) -> tensor<64x80xbf16>
        return %0 : tensor<64x80xbf16>
      }
    """
    module = ir.Module.parse(text, context())
    (observe,) = compile_graph._tuners(None, Record("graph", make_options("max-autotune"), 1))
    with module.context:
        observe("before", ExpandProducts(target="cuda"), module)
    assert not asked and "chunks of rows" in str(module) and "tuned_product" not in str(module)
    with module.context:
        del module.body.operations[1].operation.attributes["bascule.chunk_rows"]
        observe("before", ExpandProducts(target="cuda", contractions=True), module)
        assert not asked, "all products are kernels, and none is a choice"
        observe("before", ExpandProducts(target="cuda"), module)
    assert len(asked) == 1 and "bascule.tuned_product = {" in str(module)


def test_an_error_before_anything_is_measured_is_told(gpu, monkeypatch):
    from bascule.autotuning import products

    gpu(kernel_is("kernel 0"))

    def failing(*_):
        raise ValueError("no versions")

    monkeypatch.setattr(products, "Session", failing)
    record = Record("graph", make_options("max-autotune"), 1)
    (observe,) = compile_graph._tuners(None, record)
    module = ir.Module.parse("func.func private @nothing()", context())
    with module.context:
        observe("before", ExpandProducts(target="cuda"), module)
    assert record.untuned == "of products: ValueError: no versions"
