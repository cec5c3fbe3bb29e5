"""Traces whose graphs are compiled in parts are kept as those of whole graphs are."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import torch.utils.checkpoint
from bascule.runtime.modules.split_graph import path_of
from bascule.runtime.packages.container import pack, unpack
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import flex_attention

import bascule
from bascule.cache.trace_entry import EntryWriter, Lines
from bascule.compiled.compiled_graph import CompiledGraph, NotSerializable
from bascule.compiled.serialized import SerializedConstant, SerializedSplit, serialized_object
from bascule.errors import FallbackWarning
from tests.cache.cached_calls import entries, opened, resigned, run

HIT = {"miss": 1, "stored": 1, "hit": 1}


def counted():
    return bascule.counters()["traces"]


def sizes_from_data(x):
    return x[x > 0].sin() * 2


def a_number_from_data(x):
    return x * (int(x.sum().abs().item()) % 3 + 1)


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x * 2,)) + 1


def branches_in_branches(x):
    def positive(x):
        return torch.cond(x.amax() > 1, lambda x: x * 2, lambda x: x[:, :4].repeat(1, 2), (x,))

    return torch.cond(x.sum() > 0, positive, lambda x: x.cos(), (x,))


def scanned(x):
    return scan(lambda carry, y: (carry + y, carry * y), torch.zeros(8), x)[1]


def looped(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))[1]


@torch.compiler.nested_compile_region
def region(x):
    return x.sin().cos() + 1


def regions(x):
    return region(region(x)) * 2


def checkpointed_dropout(x):
    return torch.utils.checkpoint.checkpoint(
        lambda x: torch.nn.functional.dropout(x.sin(), 0.5) * 2, x, use_reentrant=False
    )


def checkpointed(x):
    return torch.linalg.svdvals(x.cos()) * torch.utils.checkpoint.checkpoint(torch.sin, x[:, 0], use_reentrant=False)


def attention(x):
    q = x.sin().reshape(1, 1, 4, 8)
    return flex_attention(q, q, q, lambda score, b, h, i, j: score * 2 + (i - j))


def attention_by_chunks(x):
    q = torch.linspace(0, 1, 512 * 16).reshape(1, 1, 512, 16) * x.sum()
    return flex_attention(q, q, q)


def a_constant(x):
    return x[x > 0] * torch.tensor([0.5, 2.0])[1]


def a_view_returned(x):
    return x[..., ::2].reshape(-1)[1:]


# Function -> whether it is trained.
CASES = {
    "sizes from data": (sizes_from_data, False),
    "sizes from data, trained": (sizes_from_data, True),
    "a number from data, trained": (a_number_from_data, True),
    "cond": (branches, False),
    "cond in cond": (branches_in_branches, False),
    "scan": (scanned, False),
    "while_loop": (looped, False),
    "invoke_subgraph": (regions, False),
    "a random state saved, trained": (checkpointed_dropout, True),
    "flex_attention": (attention, False),
    "flex_attention by chunks": (attention_by_chunks, False),
    "a constant": (a_constant, False),
}


def called(name, backend, **options):
    """The results of a case and its gradient."""
    function, trained = CASES[name]
    torch.manual_seed(5)
    x = (torch.randn(4, 8) + 0.1).requires_grad_(trained)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        out = torch.compile(function, backend=backend, options=options or None)(x)
        return [out.detach(), *(torch.autograd.grad(out.square().sum(), x) if trained else ())]


@pytest.mark.parametrize("name", CASES)
def test_a_hit_is_neither_traced_nor_compiled(folder, monkeypatch, name):
    first = called(name, "bascule", on_error="raise")
    cuts = bascule.counters()["cuts"]
    assert cuts and counted() == {"miss": 1, "stored": 1}
    monkeypatch.setattr("bascule.compiler.autograd_graph.compile_autograd_graph", None)
    second = called(name, "bascule", on_error="raise")
    assert counted() == HIT
    assert all(map(torch.equal, first, second))
    assert bascule.counters()["cuts"] == {name: 2 * n for name, n in cuts.items()}
    if name != "a random state saved, trained":
        torch.testing.assert_close(second, called(name, "eager"))


def test_another_process_needs_no_compiler(folder):
    command, root = [sys.executable, "-m", "tests.cache.split_process"], Path(__file__).parents[2]
    environment = {**os.environ, "BASCULE_CACHE_DIR": str(folder)}
    told = []
    for _ in range(2):
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        told.append(json.loads(done.stdout))
    assert told[0]["traces"] == {"miss": len(CASES), "stored": len(CASES)} and told[0]["compiler"]
    assert told[1]["traces"] == {"hit": len(CASES)} and told[1]["compiler"] == []
    assert told[0]["found"] == told[1]["found"]


def test_other_sizes_and_the_branch_not_taken_at_first(folder, monkeypatch):
    """A branch is on disk though nothing has called it."""
    for time in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(branches, backend="bascule", dynamic=True, options={"on_error": "raise"})
        given = torch.ones(3, 4), *((-torch.ones(5, 6), torch.rand(2, 2)) if time else ())
        for x in given:
            torch.testing.assert_close(compiled(x), branches(x))
        monkeypatch.setattr("bascule.compiler.autograd_graph.compile_autograd_graph", None)
    assert counted() == HIT


def test_a_view_is_one_in_both(folder):
    for _ in range(2):
        x, copy = torch.randn(3, 4, 6), torch.zeros(3, 4, 6)
        copy.copy_(x)
        got, wanted = run(a_view_returned, x, dynamic=True), a_view_returned(copy)
        for given in (x, copy):
            given.mul_(2)
        torch.testing.assert_close(got, wanted)
    assert counted() == HIT


def fails(x, n):
    return torch.linalg.cholesky(x * 2)[torch.linalg.cholesky(x) > n]


# The same line further down.


def fails_elsewhere(x, n):
    return torch.linalg.cholesky(x * 2)[torch.linalg.cholesky(x) > n]


def test_lines_are_those_of_who_loads_it(folder):
    """Of what runs by itself, in errors and in what `explain` tells."""
    for function in (fails, fails_elsewhere):
        line = f"test_serialized.py:{function.__code__.co_firstlineno + 1}"
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            told = [g for g in bascule.explain(function, torch.eye(3), 0).graphs if g.cuts]
        assert told and all(line in cut for graph in told for cut in graph.cuts if ".py:" in cut)
    assert counted() == HIT


def test_an_entry_of_ours_that_tells_nonsense_is_traced_again(folder):
    first = called("cond", "bascule", on_error="raise")
    (path,) = entries(folder, "traces")
    description, blobs = unpack(opened(path))
    for change in ({"kind": "unknown"}, {"kind": "operator", "settings": {"name": "no_such", "called": True}}):
        description["graphs"][0]["constants"][0] |= change
        resigned(path, pack(description, blobs))
        assert all(map(torch.equal, called("cond", "bascule", on_error="raise"), first))
    assert "hit" not in counted() and counted()["miss"] == 1 and counted()["stored"] == 3
    assert sum(n for name, n in counted().items() if name.startswith("refused: ")) == 2


def test_a_graph_that_is_gone_is_compiled_again(folder):
    first = called("cond", "bascule", on_error="raise")
    for path in entries(folder, "graphs")[:1]:
        path.unlink()
    for _ in range(2):
        assert all(map(torch.equal, called("cond", "bascule", on_error="raise"), first))
    assert counted() == {"miss": 2, "stored": 2, "hit": 1} and len(entries(folder, "traces")) == 1


# What is not kept


@pytest.mark.parametrize("function", [branches, regions, scanned])
def test_a_backward_that_pytorch_cannot_read_again(folder, function):
    """Compiled autograd would ask for its graph."""
    for _ in range(2):
        x = torch.rand(4, 8, requires_grad=True)
        run(function, x).sum().backward()
        (wanted,) = torch.autograd.grad(function(x).sum(), x)
        torch.testing.assert_close(x.grad, wanted)
    reason = "its backward calls graphs, and PyTorch cannot read it again for compiled autograd"
    assert counted() == {"miss": 2, f"bypass: {reason}": 2}


def test_compiled_autograd_takes_a_backward_that_was_loaded(folder):
    for function in (checkpointed, sizes_from_data):
        for enabled in (False, True):
            x = torch.rand(4, 8, requires_grad=True)
            compiler = torch.compile(backend="bascule", options={"on_error": "raise"})
            with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
                out = run(function, x).sum()
                with torch._dynamo.compiled_autograd._enable(compiler) if enabled else nullcontext():
                    out.backward()
            (wanted,) = torch.autograd.grad(function(x).sum(), x)
            torch.testing.assert_close(x.grad, wanted)
    assert counted()["hit"] == 2


def test_what_another_process_may_have_otherwise_is_not_kept():
    from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_functional

    gm = torch.fx.symbolic_trace(sizes_from_data)
    refused = {
        triton_kernel_wrapper_functional: "a Triton kernel",
        gm: "a graph as it is",
        torch.ones(2, requires_grad=True): "more to it",
        torch.ones(2).to_sparse(): "more to it",
        torch.nn.Parameter(torch.ones(2), requires_grad=False): "more to it",
        (lambda: 0): "an object of type builtins.function",
        counted: "an object of type builtins.function",
    }
    for value, reason in refused.items():
        with pytest.raises(NotSerializable, match=reason):
            serialized_object(value, called=False)
    assert path_of(torch.sym_max) == ("torch", "sym_max") and path_of(counted) is None
    assert path_of(torch.nn.Linear(1, 1).forward) is None
    with pytest.raises(NotSerializable, match="not compiled"):
        CompiledGraph(lambda args: args).entry()


def test_one_graph_that_is_not_kept_is_the_reason_for_all(folder):
    chain = SerializedSplit("", {}, [], [SerializedConstant("part", graph=None, tensor=torch.ones(2))], 1)
    told = EntryWriter(Lines([], traces=False)).graph(chain)
    assert told["constants"][0]["tensor"]["sizes"] == [2]
    reason = "a part cannot be kept"

    with pytest.raises(NotSerializable, match=reason):
        CompiledGraph(lambda args: args, NotSerializable(reason)).entry()


def test_a_part_that_is_not_compiled_is_a_bypass_with_its_reason(folder, monkeypatch):
    def broken(*_, **__):
        raise KeyError("the injected failure")

    monkeypatch.setattr("bascule.compiler.compile_graph.to_python", broken)
    for _ in range(2):
        with pytest.warns(FallbackWarning):
            assert torch.equal(*called("sizes from data", "bascule"), *called("sizes from data", "eager"))
    reason = "a graph that was not compiled, or that the disk cache does not take"
    assert counted() == {"miss": 2, f"bypass: {reason}": 2}
