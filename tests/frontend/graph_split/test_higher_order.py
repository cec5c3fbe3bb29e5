"""Higher-order operators: their graphs are compiled by themselves, and the graph around them in parts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._higher_order_ops import InvokeQuant
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.foreach_map import foreach_map
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.compiler import nested_compile_region
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

import bascule
from bascule.compat.versions import running
from tests.frontend.against_eager import check, cut_at, leaf


def branches(x, y):
    return torch.cond(x.sum() > 0, lambda x, y: (x.sin() * y).exp(), lambda x, y: x.cos() - y, (x, y)) + 1


def switched(x, y, i):
    from torch._higher_order_ops.switch import switch

    branches = (lambda x, y: (x.sin() * y).exp(), lambda x, y: x.cos() - y, lambda x, y: (x @ y.t()) @ y)
    return switch(i, branches, (x, y)) + 1


def multiplied(x, y, z):
    from torch._higher_order_ops.flex_gemm import flex_gemm

    return flex_gemm(torch.mm, (x, y), lambda product: (product * 0.5 + z).relu()) + 1


def nested(x):
    def positive(x):
        return torch.cond(x.mean() > 1, lambda x: x * 2, lambda x: x.exp(), (x,))

    return torch.cond(x.sum() > 0, positive, lambda x: x.cos(), (x,))


def looped(i, x):
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x.sin() * 2 + i), (i, x))


def scanned(c, x):
    return scan(lambda c, x: (c + x, c * x), c, x)


def mapped_over_lists(x, y):
    def change(a, b):
        return a.softmax(-1) * b + 1

    lists = [x, x * 2], [y, y.sin()]
    if torch.compiler.is_compiling():
        return foreach_map(change, *lists)
    return tuple(map(change, *lists))  # eager has no such operator


def quantized(x, y):
    """The operator is given an object beside tensors, which the graph makes."""
    q = InvokeQuant(codegen_low_precision=False)
    return q(lambda x, y: ((x * 8).round() / 8 * y,), x.sin(), y, scheme="eighths")[0] + y


@nested_compile_region
def region(x, w):
    return torch.relu(x @ w).softmax(-1)


def dropped(x):
    return torch.nn.functional.dropout(x.sin() * 2, 0.5)


def scanned_from_expanded(x):
    """The gradient of what is summed is expanded: its elements share a place at the first step of the backward."""
    carry, steps = scan(lambda c, x: (c * 0.5 + x.sin(), (c * x).view(1, 3).t().reshape(-1)), torch.zeros(3), x)
    return carry.sum() + steps.sum()


def scanned_along_columns(c, x):
    """The body was traced with a tensor of its own, and is called with one whose strides are those of `x`."""
    return scan(lambda c, x: (c * 0.5 + x, c - x), c, x, dim=1)


def mapped_transposed(x):
    return map_over(lambda row: row.sin() * torch.arange(4.0)[:, None], x.permute(2, 1, 0))


def counted(x):
    """A condition on a number, which is not a tensor."""
    return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x.sin()), (0, x))


class Branch(torch.nn.Module):
    """Parameters inside of a branch."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.linear, lambda x: x * 2, (x,))


torch.manual_seed(0)
# name -> function, argument lists, operator
FUNCTIONS = {
    "cond": (branches, [[leaf(3, 4) + s, leaf(3, 4)] for s in (-9, 9)], "cond"),
    "cond of a module": (Branch(), [[torch.randn(5, 3) + s] for s in (-9, 9)], "cond"),
    "cond in cond": (nested, [[torch.randn(5, 3) + s] for s in (-9, 0.5, 9)], "cond"),
    "while_loop": (looped, [[torch.tensor(i), torch.randn(3)] for i in (0, 3, 9)], "while_loop"),
    "while_loop with gradients": (looped, [[torch.tensor(2), leaf(3)]], "while_loop"),
    "scan": (scanned, [[leaf(3), leaf(5, 3)]], "scan"),
    "scan whose carry's gradient is expanded": (scanned_from_expanded, [[leaf(5, 3)]], "scan"),
    "scan along columns": (scanned_along_columns, [[leaf(2, 3), leaf(2, 5, 3)]], "scan"),
    "while_loop over a number": (counted, [[torch.randn(3)]], "while_loop"),
    "map over a permuted tensor": (mapped_transposed, [[torch.randn(3, 4, 5)]], "map_impl"),
    "map": (lambda x, y: map_over(lambda x, y: (x + y).sin(), x, y), [[leaf(5, 3), leaf(3)]], "map_impl"),
    "foreach_map": (mapped_over_lists, [[leaf(3, 4), leaf(3, 4)]], "foreach_map"),
    "an operator that is given an object": (quantized, [[leaf(3, 4), leaf(3, 4)]], "invoke_quant_packed"),
    "map with a size": (
        lambda x, y: map_over(lambda x, n: (x + n).sin(), x, y.shape[0]),
        [[torch.randn(5, 3), torch.randn(n)] for n in (4, 7)],
        "map_impl",
    ),
    "region": (lambda x, v, w: region(region(x, v), w), [[leaf(4, 4), leaf(4, 4), leaf(4, 4)]], "invoke_subgraph"),
}


if hasattr(torch.ops.higher_order, "switch"):  # as of PyTorch 2.14
    FUNCTIONS["flex_gemm"] = (
        multiplied,
        [[torch.randn(n, 4), torch.randn(4, 5), torch.randn(5)] for n in (3, 6)],
        "flex",
    )
    FUNCTIONS["switch"] = (switched, [[leaf(3, 4), leaf(3, 4), torch.tensor(i)] for i in (0, 1, 2, 5, -1)], "switch")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name, dynamic):
    function, calls, operator = FUNCTIONS[name]
    records = check(
        function, *([x.detach().requires_grad_(x.requires_grad) for x in c] for c in calls), dynamic=dynamic
    )
    assert any(found.startswith(f"higher_order.{operator}") for found in cut_at(records))


def test_the_graphs_inside_are_compiled():
    records = check(branches, [torch.randn(3, 4), torch.randn(3, 4)])
    inside = [r for r in records if "true_graph" in r.name or "false_graph" in r.name]
    assert len(inside) == 2 and all(r.compiled and r.summary.kernels for r in inside)


@pytest.mark.skipif("switch" not in FUNCTIONS, reason="PyTorch has no such operator before 2.14")
def test_the_branches_of_a_switch_are_compiled():
    function, (arguments, *_), _ = FUNCTIONS["switch"]
    inside = [r for r in check(function, arguments) if "branch" in r.name]
    assert len(inside) == 6 and all(r.compiled for r in inside)


@pytest.mark.parametrize("name", ["foreach_map", "an operator that is given an object"])
def test_the_graph_of_an_operator_that_only_calls_it_is_compiled(name):
    function, (arguments,), operator = FUNCTIONS[name]
    inside = [r for r in check(function, arguments) if operator in r.name]
    assert len(inside) == 2 and all(r.compiled and r.summary.kernels for r in inside)  # forward and backward


def test_a_region_that_is_called_twice_is_compiled_once():
    function, (arguments,), _ = FUNCTIONS["region"]
    records = check(function, arguments)
    names = [record.name for record in records if "fw_subgraph" in record.name]
    assert len(names) == 1


def branches_that_write(x):
    def positive(a):
        a.add_(1)
        return a * 2

    def negative(a):
        a.mul_(3)
        return a - 1

    y = x.clone()
    return torch.cond(x.sum() > 0, positive, negative, (y,)), y


def loop_that_writes(x, y):
    def body(i, x):
        y.add_(x)
        return i + 1, x.sin()

    return while_loop(lambda i, x: i < 3, body, (torch.tensor(0), x)), y


@nested_compile_region
def region_that_writes(x, y):
    y.add_(1)
    return x + y


WRITING = {
    "cond": (branches_that_write, [[torch.randn(4) + s] for s in (-9, 9)]),
    "while_loop": (loop_that_writes, [[torch.randn(4), torch.randn(4)]]),
    "invoke_subgraph": (
        lambda x, y: region_that_writes(region_that_writes(x, y), y),
        [[torch.randn(4), torch.randn(4)]],
    ),
}


@pytest.mark.parametrize("name", WRITING)
def test_graphs_that_write_to_what_they_are_given(name):
    function, calls = WRITING[name]
    if name != "invoke_subgraph" and running("torch") < (2, 13):
        pytest.skip("Dynamo refuses it")
    with torch.no_grad():
        records = check(function, *calls)
    assert "higher_order.auto_functionalized_v2" in cut_at(records)


def test_associative_scan():
    check(lambda x: associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic"), [torch.randn(6, 3)])


@pytest.mark.parametrize("body", [dropped, lambda x: x.sin().exp()])
def test_checkpoint(body):
    """The backward draws the forward's random numbers again."""
    check(lambda x: checkpoint(body, x, use_reentrant=False), [leaf(3, 50)])


def heads(*sizes):
    return [torch.randn(*sizes) for _ in range(3)]


BLOCKS = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
ATTENTION = {
    "a score of positions": (
        lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s * 2, -1e9)),
        heads(1, 2, 16, 8),
    ),
    "a mask of blocks": (lambda q, k, v: flex_attention(q, k, v, block_mask=BLOCKS), heads(1, 2, 128, 16)),
    "grouped heads and a captured tensor": (
        lambda q, k, v, c: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + c[h], enable_gqa=True),
        [torch.randn(2, 4, 16, 8), torch.randn(2, 2, 16, 8), torch.randn(2, 2, 16, 8), torch.randn(4)],
    ),
    "the logarithm of the sum": (lambda q, k, v: flex_attention(q, k, v, return_lse=True), heads(1, 2, 16, 8)),
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", ATTENTION)
def test_flex_attention(name):
    function, arguments = ATTENTION[name]
    records = check(function, arguments, rtol=1e-5, atol=1e-5)
    assert cut_at(records) == ["higher_order.flex_attention"]
    (inside,) = [record for record in records if record.name.endswith("flex_attention")]
    parts = {"aten.mul.Tensor", "aten.where.self", "aten.amax.default", "aten.exp.default", "aten.sum.dim_IntList"}
    assert (
        len([k for k in inside.summary.kernels if parts <= {*k.operators}]) == 1
    )  # scores, their change, the mask and the softmax are one kernel


def blocks(mask, rows, keys, batches=None, heads=None, size=128):
    return create_block_mask(mask, batches, heads, rows, keys, device="cpu", BLOCK_SIZE=size)


DOCUMENTS = torch.arange(300) // 70
WINDOW = blocks(lambda b, h, i, j: (i >= j) & (i - j < 40), 300, 300, size=32)
BY_HEAD = blocks(lambda b, h, i, j: (i + 50 * h >= j) & (b + i > 5), 300, 400, 2, 4, size=64)
SAME_DOCUMENT = blocks(lambda b, h, i, j: DOCUMENTS[i] == DOCUMENTS[j], 300, 300, size=32)
LATE = blocks(lambda b, h, i, j: (i >= 100) & (i < 200) & (j == 299), 300, 300, size=32)  # many rows have no key at all
SHARED = blocks(lambda b, h, i, j: i + b >= j, 300, 300, batches=3, size=64)
LONG = {
    "a window": (lambda q, k, v: flex_attention(q, k, v, block_mask=WINDOW), heads(2, 2, 300, 16)),
    "no mask of blocks": (
        lambda q, k, v, c: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * c[h] - (i - j).abs() * 0.1),
        [*heads(1, 2, 300, 16), torch.randn(2)],
    ),
    "masks of batches and heads, grouped heads": (
        lambda q, k, v: flex_attention(q, k, v, block_mask=BY_HEAD, enable_gqa=True, return_lse=True),
        [torch.randn(2, 4, 300, 16), torch.randn(2, 2, 400, 16), torch.randn(2, 2, 400, 8)],
    ),
    "documents, one tensor": (
        lambda q: flex_attention(q, q, q, block_mask=SAME_DOCUMENT, scale=0.3),
        heads(1, 2, 300, 16)[:1],
    ),
    "rows without keys": (
        lambda q, k, v: flex_attention(q, k, v, block_mask=LATE, return_lse=True),
        heads(1, 2, 300, 16),
    ),
    "transposed heads of f64": (
        lambda q, k, v: flex_attention(*(x.transpose(1, 2) for x in (q, k, v)), block_mask=WINDOW),
        [x.double() for x in heads(1, 300, 2, 16)],
    ),
    "low precision": (
        lambda q, k, v: flex_attention(q, k, v, block_mask=WINDOW),
        [x.bfloat16() for x in heads(1, 2, 300, 16)],
    ),
    "keys and values for all batches": (
        lambda q, k, v: flex_attention(q, k, v, block_mask=SHARED),
        [torch.randn(3, 2, 300, 16), *heads(1, 2, 300, 16)[1:]],
    ),
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", LONG)
def test_flex_attention_by_chunks_of_rows(name):
    function, arguments = LONG[name]
    tolerance = 2e-2 if arguments[0].dtype == torch.bfloat16 else 1e-5
    records = check(function, arguments, rtol=tolerance, atol=tolerance)
    assert cut_at(records) == ["higher_order.flex_attention"]
    (inside,) = [record for record in records if record.name.endswith("flex_attention")]
    assert ".size(2)" in inside.wrapper  # how many keys a chunk needs


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_chunk_reads_no_more_keys_than_its_mask_lists():
    """Keys that no block of the mask has are not a number, and nobody sees it."""
    q, k, v = heads(1, 2, 512, 16)
    mask = blocks(lambda b, h, i, j: (i >= j) & (i - j < 32), 512, 512, size=64)
    compiled = torch.compile(
        lambda q, k, v: flex_attention(q, k, v, block_mask=mask), backend="bascule", options={"on_error": "raise"}
    )
    want = compiled(q, k, v)
    k[:, :, 256:], v[:, :, 256:] = float("nan"), float("nan")
    torch.testing.assert_close(compiled(q, k, v)[:, :, :256], want[:, :, :256])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_of_dynamic_sizes():
    check(
        lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s, -1e9)),
        *(heads(1, 2, size, 16) for size in (300, 400, 17)),
        dynamic=True,
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_gradients_of_flex_attention(monkeypatch):
    """PyTorch refuses them on a CPU by itself; the operators are those of a GPU."""
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)
    q, k, v, bias = (leaf(1, 2, 16, 8) for _ in range(4))
    bias = leaf(16)

    def function(q, k, v, bias):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s + bias[j], -1e9))

    check(function, [q, k, v, bias], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("train", [False, True])
def test_logarithms_of_sums_have_eagers_precision(train, dtype, monkeypatch):
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)
    precision = dict.fromkeys(("rtol", "atol"), 64 * torch.finfo(dtype).eps)

    def function(q, k, v):
        out, logarithms = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1, return_lse=True)
        return out * 2, logarithms.exp() + 1

    check(function, [leaf(1, 2, 16, 8).detach().to(dtype).requires_grad_(train) for _ in range(3)], **precision)


# What a score's function captures, and whether its gradient has one of it.
CAPTURED = {
    "without gradients": (lambda s, c, h: s * c[h], torch.tensor([0.5, 2.0]), False),
    "whole numbers": (lambda s, c, h: s * (c[h] + 1), torch.tensor([0, 2]), False),
    "compared": (lambda s, c, h: torch.where(c[h] > 0, s, s * 2), torch.tensor([0.5, -2.0]), True),
    "detached": (lambda s, c, h: s * c.detach()[h], torch.tensor([0.5, -2.0]), True),
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_flex_attention_with_a_captured_tensor_that_has_none(name, dynamic, monkeypatch):
    """Eager refuses a tensor that requires one and has none: it is given the same one without, where nothing differs."""
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)
    score, captured, requires = CAPTURED[name]

    def function(q, k, v, c):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: score(s, c, h))

    torch._dynamo.reset()
    mine, theirs = ([leaf(1, 2, 16, 8) for _ in range(3)] for _ in range(2))
    for x, y in zip(mine, theirs):
        y.data.copy_(x.data)
    given = captured.clone().requires_grad_(requires)
    found = torch.compile(function, backend="bascule", options={"on_error": "raise"}, dynamic=dynamic)(*mine, given)
    wanted = function(*theirs, captured)
    for y in (found, wanted):
        y.sin().sum().backward()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    for x, y in zip(mine, theirs):
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)
    assert given.grad is None or not given.grad.any()


def test_a_users_triton_kernel():
    script = Path(__file__).with_name("user_kernel.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("higher_order.triton_kernel_wrapper_functional: a Triton kernel of the user's")


def test_they_are_refused_with_fallback_error():
    with pytest.raises(bascule.UnsupportedError, match=r"test_higher_order.py:\d+:0: .*cond is not taken"):
        torch.compile(branches, backend="bascule", options={"fallback": "error"})(torch.randn(3), torch.randn(3))


def test_explain_shows_the_graphs_inside():
    explanation = bascule.explain(branches, torch.randn(3, 4), torch.randn(3, 4), options={"on_error": "raise"})
    text = str(explanation)
    assert "higher_order.cond: a higher-order operator, which calls graphs of its own" in text
    assert "true_graph_0: " in text and "aten.sin.default" in text
    whole = next(graph for graph in explanation.graphs if graph.cuts)
    assert "cond(gt, true_graph_0, false_graph_0, (" in whole.wrapper
