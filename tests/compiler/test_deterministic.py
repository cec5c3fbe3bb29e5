"""`torch.use_deterministic_algorithms`: what GPU kernels would write in an order that varies goes to ATen, which orders it
or refuses; rows that are added are ordered and summed."""

import pytest
import torch
from torch.nn import functional as F

import bascule
from bascule.options import Options
from bascule.pipelines import pipeline_for

REASON = "deterministic algorithms are asked for"
FLOAT_ADD = "atomic_rmw_op = 5"


@pytest.fixture(params=[False, True], ids=["strict", "warn_only"])
def deterministic(request):
    torch.use_deterministic_algorithms(True, warn_only=request.param)
    yield
    torch.use_deterministic_algorithms(False)


PLACES = torch.tensor([3, 1, 3, 3, 0])
SPREAD = PLACES[:, None].expand(-1, 6)

# Additions of rows: name -> function, its ATen operator.
ROWS = {
    "index_put": (lambda x, y, i, s: x.index_put((i,), y, accumulate=True), "aten.index_put.default"),
    "index_add": (lambda x, y, i, s: x.index_add(0, i, y), "aten.index_add.default"),
    "embedding": (lambda x, y, i, s: F.embedding(i, x) * y, "aten.embedding_dense_backward.default"),
    "pooled": (lambda x, y, i, s: x.index_add(0, i, F.avg_pool1d(y, 3, 1, 1)), "aten.index_add.default"),
}
# Other writes that meet at one place.
MEETING = {
    "index_put set": (lambda x, y, i, s: x.index_put((i,), y), "aten.index_put.default"),
    "columns": (lambda x, y, i, s: x.index_add(1, i, y[:4, :5]), "aten.index_add.default"),
    "index_copy": (lambda x, y, i, s: x.index_copy(0, i, y), "aten.index_copy.default"),
    "put": (lambda x, y, i, s: x.put(s, y, accumulate=True), "aten.put.default"),
    "scatter": (lambda x, y, i, s: x.scatter(0, s, y), "aten.scatter.src"),
    "scatter_add": (lambda x, y, i, s: x.scatter_add(0, s, y), "aten.scatter_add.default"),
    "scatter_reduce": (lambda x, y, i, s: x.scatter_reduce(0, s, y, "mean"), "aten.scatter_reduce.two"),
    "gather": (lambda x, y, i, s: x.gather(0, s) * y, "aten.scatter_add.default"),
}
# Writes whose order does not matter.
COMMUTING = {
    "integers": lambda x, y, i, s: torch.zeros(9, dtype=torch.int64).index_add(0, i, i),
    "largest": lambda x, y, i, s: x.detach().scatter_reduce(0, s, y, "amax"),
    "one value": lambda x, y, i, s: x.index_fill(0, i[:2], 2.5),
}


def explained(function, folder, **options):
    """`explain` on the target 'interpret', and how many atomic sums of floats its kernels have."""
    x, y = torch.randn(4, 6, requires_grad=True), torch.randn(5, 6)
    options = {"target": "interpret", "on_error": "raise", "dump": str(folder), **options}
    explanation = bascule.explain(function, x, y, PLACES, SPREAD, options=options)
    texts = [file.read_text() for file in folder.rglob("*.ttir")]
    return explanation, sum(text.count(FLOAT_ADD) for text in texts)


def aten_of(explanation):
    return {call.operator: call.reason for graph in explanation.graphs for call in graph.aten}


def check_against_eager(function):
    """Values and gradients."""
    x, y = torch.randn(4, 6, requires_grad=True), torch.randn(5, 6)
    compiled = torch.compile(function, backend="bascule", options={"target": "interpret", "on_error": "raise"})
    got, want = compiled(x, y, PLACES, SPREAD), function(x, y, PLACES, SPREAD)
    torch.testing.assert_close(got, want)
    gradients = (torch.autograd.grad((out * out).sum(), x)[0] for out in (got, want))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("name", MEETING)
def test_writes_that_meet_go_to_aten(name, deterministic, tmp_path):
    function, operator = MEETING[name]
    explanation, atomics = explained(function, tmp_path)
    assert REASON in aten_of(explanation)[operator]
    assert atomics == 0
    check_against_eager(function)


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_added_in_a_fixed_order(name, deterministic, tmp_path):
    """As sums of segments, however small they are."""
    function, _ = ROWS[name]
    explanation, atomics = explained(function, tmp_path)
    assert atomics == 0 and not aten_of(explanation)
    check_against_eager(function)


@pytest.mark.parametrize("name", ["index_put", "scatter_add", "embedding"])
def test_without_the_flag_they_are_generated(name, tmp_path):
    function, operator = (ROWS | MEETING)[name]
    explanation, atomics = explained(function, tmp_path)
    assert operator not in aten_of(explanation)
    assert atomics > 0


@pytest.mark.parametrize("name", COMMUTING)
def test_writes_in_any_order_stay_kernels(name, deterministic, tmp_path):
    explanation, atomics = explained(COMMUTING[name], tmp_path)
    assert not aten_of(explanation) and atomics == 0


def test_an_error_is_not_made_of_it(deterministic, tmp_path):
    """ATen has the operator on purpose: `fallback="error"` is about operators without a rule."""
    explanation, _ = explained(MEETING["columns"][0], tmp_path, fallback="error")
    assert "aten.index_add.default" in aten_of(explanation)


def test_the_flag_is_seen_by_guards_and_by_the_cache():
    function = MEETING["columns"][0]
    compiled = torch.compile(function, backend="bascule", options={"target": "interpret", "on_error": "raise"})
    inputs = torch.randn(4, 6), torch.randn(5, 6), PLACES, SPREAD
    compiled(*inputs)
    assert not bascule.counters()["aten"]
    torch.use_deterministic_algorithms(True)
    try:
        compiled(*inputs)
        on_gpu, on_cpu = (pipeline_for(Options(), {"target": target}) for target in ("cuda", "cpu"))
    finally:
        torch.use_deterministic_algorithms(False)
    assert [REASON in name for name in bascule.counters()["aten"]] == [True]
    assert "deterministic=true" in str(on_gpu)  # the pipeline's text is a part of the key
    assert "deterministic" not in str(on_cpu), "kernels of a CPU write such places in order"
    assert "deterministic" not in str(pipeline_for(Options(), {"target": "cuda"}))


MADE = {
    "empty": lambda x: torch.empty(5, dtype=x.dtype),
    "empty_like": torch.empty_like,
    "new_empty": lambda x: x.new_empty(2, 3),
    "empty_strided": lambda x: torch.empty_strided((2, 3), (1, 2), dtype=x.dtype),
    "new_empty_strided": lambda x: x.new_empty_strided((2, 3), (1, 2)),
    "empty_permuted": lambda x: torch.empty_permuted((2, 3), (1, 0), dtype=x.dtype),
    "resize_": lambda x: x.clone().resize_(9),
    "partly written": lambda x: torch.empty_like(x).index_put_((torch.tensor([1]),), x[1]),
}
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.bool]
DTYPES += [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("name", MADE)
def test_memory_that_nothing_was_written_to(deterministic, name):
    """Has what eager fills it with, where it is asked to; the backend's own zeros where it is not."""
    for dtype in DTYPES:
        x = torch.ones(4).to(dtype)
        torch._dynamo.reset()
        compiled = torch.compile(MADE[name], backend="bascule", options={"on_error": "raise"})
        torch.testing.assert_close(compiled(x), MADE[name](x), equal_nan=True, rtol=0, atol=0)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        assert "fill-uninitialized" not in str(pipeline_for(Options()))
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
    assert "fill-uninitialized=true" in str(pipeline_for(Options()))
