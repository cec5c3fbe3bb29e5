"""`max_autotune` of products on a GPU: what is chosen computes what the calls do, is told with its times, and is found again."""

import pytest
import torch
from bascule.dialect.mlir import ir
from torch.nn import functional as F

import bascule
from bascule.autotuning import programs
from bascule.compiler import compile_graph
from tests.lowering.triton.kernels.test_contractions import EPS, matrices


@pytest.fixture
def kept(monkeypatch, tmp_path):
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))


CASES = {
    "product": (lambda x, w, b, r: x @ w.t(), 1024),
    "bias, gelu": (lambda x, w, b, r: F.gelu(F.linear(x, w, b)), 1024),
    "residual": (lambda x, w, b, r: F.linear(x, w, b) + r, 1024),
    "both returned": (lambda x, w, b, r: ((h := F.linear(x, w, b)), F.silu(h)), 1024),
    "a part": (lambda x, w, b, r: F.relu(F.linear(x, w, b)[:, 3:501]), 1024),
    "heads": (lambda x, w, b, r: F.linear(x, w, b).view(4, -1, 8, 64).transpose(1, 2).contiguous(), 512),
    "softmax": (lambda x, w, b, r: F.linear(x, w, b).softmax(-1), 1024),
}


def inputs(dtype, columns, rows=2048, summed=768):
    x, w, b, r = matrices(dtype, (rows, summed), (columns, summed), (columns,), (rows, columns))
    return [x.cuda(), w.cuda() / 16, b.cuda(), r.cuda()]


def compare(function, given, dtype):
    found = torch.compile(function, backend="bascule", options={"max_autotune": True, "on_error": "raise"})(*given)
    wanted = function(*(x.double() for x in given))
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, wanted)), strict=True):
        assert one.dtype == dtype and one.shape == other.shape
        error = (one.double() - other).abs()
        assert (error <= 3 * EPS[dtype] * other.abs() + 2 * EPS[dtype]).all(), float(error.max())


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_what_is_chosen_computes_the_same(kept, name, dtype):
    function, columns = CASES[name]
    compare(function, inputs(dtype, columns), dtype)


def test_choices_are_told_with_times_and_found_again(kept):
    function, columns = CASES["bias, gelu"]
    given = inputs(torch.bfloat16, columns)
    texts = []
    for _ in range(2):
        torch._dynamo.reset()
        graph = bascule.explain(function, *given, options={"max_autotune": True, "on_error": "raise"}).graphs[0]
        (told,) = (str(remark) for remark in graph.remarks if remark.pass_name == "expand-products")
        texts.append(told)
    assert texts[0] == texts[1] and "as measured: 2048x768x1024: the call, with what follows, takes" in texts[0]
    assert "the fastest of" in texts[0] and texts[0].count(" us (") == 3, "every candidate compiles"


@pytest.mark.parametrize("name", CASES)
def test_every_schedule_computes_the_same(kept, monkeypatch, name):
    """Each kernel that is measured is run once and compared with the calls: none is refused, or apart."""
    found = []

    def begin(modules, device, cached):
        finish = programs.begin(modules, device, cached)

        def finished():
            found.append(finish())
            return found[-1]

        return finished

    from bascule.autotuning.products import product_tuner

    monkeypatch.setattr(compile_graph, "_tuners", lambda target, record: product_tuner(target, record, begin))
    function, columns = CASES[name]
    compare(function, inputs(torch.bfloat16, columns, rows=1000, summed=776), torch.bfloat16)
    told = [times for each in found for times in each.items() if isinstance(times[1], str)]
    assert found and not told, told


def test_a_training_step(kept):
    layer = (
        torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda().bfloat16()
    )
    x = torch.randn(4096, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    call = torch.compile(layer, backend="bascule", options={"max_autotune": True, "on_error": "raise"})
    loss = call(x).float().square().mean()
    loss.backward()
    got = [x.grad.clone(), *(p.grad.clone() for p in layer.parameters())]
    wide = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda().double()
    wide.load_state_dict(layer.state_dict())
    y = x.detach().double().requires_grad_()
    wide(y).square().mean().backward()
    for one, other in zip(got, [y.grad, *(p.grad for p in wide.parameters())], strict=True):
        assert (one.double() - other).abs().mean() <= 0.02 * other.abs().mean()


def test_on_a_full_device_the_model_chooses(kept, monkeypatch):
    def full(module, device):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(programs, "inputs_of", full)
    function, columns = CASES["bias, gelu"]
    graph = bascule.explain(function, *inputs(torch.bfloat16, columns), options={"max_autotune": True}).graphs[0]
    told = "\n".join(map(str, graph.remarks))
    assert "is chosen by the model" in told and "not measured: OutOfMemoryError: no room" in told
    assert len(graph.aten) == ("with what reads it is a kernel" not in told)


def test_programs_without_kernels_are_timed(kept):
    module = (
        "func.func @main(%x: memref<4xf32>) -> memref<4xf32> attributes {bascule.graph} { return %x : memref<4xf32> }"
    )
    from bascule.dialect.ir import context

    made = {name: ir.Module.parse(module, context()) for name in ("calls", "same")}
    # One that waits for other processes on the GPU is much slower, and has no time then.
    assert any(set(programs.begin(made, 0, False)()) == {"calls", "same"} for _ in range(5))
