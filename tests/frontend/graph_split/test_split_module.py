"""Graphs with operators that no compiled part can have, compiled in parts."""

import pytest
import torch

import bascule
from bascule.compat.versions import running
from bascule.reporting.counters import counters, reset_counters
from tests.frontend.against_eager import check, cut_at, leaf

OLD = running("torch") < (2, 12)


def ones(count, x):
    """Sizes from a number in a tensor; 0 and 1 are sizes like others."""
    k = (count + 1).item() - 1
    torch._check(k >= 0)
    return torch.arange(k) * 2 + 1, x.exp() * k, k * 2, torch.zeros(k, 3).sum(1)


def test_sizes_from_a_number():
    calls = [[torch.tensor(n), torch.randn(5)] for n in (3, 0, 1, 40)]
    records = check(ones, *calls, graphs=1)
    assert cut_at(records) == ["aten._local_scalar_dense.default"]
    assert [record.name.rpartition("_")[2] for record in records] == ["inference", "part0", "part1"]


def test_numbers_that_may_be_negative():
    def function(x, k):
        k = (k + 0).item()
        return torch.tril(x, k), torch.triu(x, k + 1), x * k

    records = check(function, *([torch.randn(5, n), torch.tensor(k)] for n in (1, 4) for k in (-2, 0, 3)))
    assert set(cut_at(records)) == {"aten._local_scalar_dense.default"}


@pytest.mark.skipif(
    running("torch") < (2, 13), reason="PyTorch 2.11 and 2.12 guard on the number when they trace a power"
)
def test_floats_and_booleans():
    def function(x, n):
        a, b = (n * 2).item(), (x.sum() > 0).item()
        return x**a, x.to(torch.int64) * a, x.clamp(max=a), torch.full((3,), a), torch.full((2,), b), x * b

    calls = [[torch.rand(5) - shift, torch.tensor(1.5)] for shift in (0.0, 1.0)]
    records = check(lambda x, n: function(x.abs() + x / 2, n), *calls)
    assert set(cut_at(records)) == {"aten._local_scalar_dense.default"}


def selected(x):
    y = x[x > 0]
    return y * 2, y.sum()


@pytest.mark.parametrize("shift", [0.0, 100.0, -100.0])
def test_a_mask_selects_some_none_or_all(shift):
    records = check(selected, [(torch.randn(5, 4) + shift).requires_grad_()])
    assert cut_at(records) == ["aten.index.Tensor"]


def test_one_graph_for_all_counts():
    check(lambda x: torch.nonzero(x > 0).sum(0) + 1, *([torch.randn(6, 3) + s] for s in (0.0, 9.0, -9.0)), graphs=1)


torch.manual_seed(0)
FUNCTIONS = {
    "nonzero": (lambda x: (torch.nonzero(x > 0) * 2).sum(0) + 1, [torch.randn(5, 4)]),
    "unique": (lambda x: torch.unique(x) + 1, [torch.tensor([3, 1, 3, 2, 1])]),
    "unique with places": (
        lambda x: [y + 1 for y in torch.unique(x, return_inverse=True, return_counts=True)],
        [torch.tensor([3.0, 1.5, 3.0, 2.0, 1.5])],
    ),
    "bincount": (lambda x: torch.bincount(x) * 2, [torch.tensor([3, 1, 3, 2, 1])]),
    "repeat_interleave": (
        lambda x, n: torch.repeat_interleave(x, n, dim=0) * 2,
        [leaf(4, 3), torch.tensor([1, 0, 2, 3])],
    ),
    "one after the other": (lambda x: (x[x > 0] * 2)[x[x > 0] > 0.5] + 1, [leaf(6, 7)]),
    "views of what was before": (
        lambda x, y: ((z := x * 2).view(-1), z.t(), x.view(-1)[:3], torch.nonzero(y > 0) + 1),
        [torch.randn(3, 4), torch.randn(5)],
    ),
    "nothing to compile": (lambda x: torch.nonzero(x), [torch.tensor([0.0, 1.0, 2.0])]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name):
    function, arguments = FUNCTIONS[name]
    assert cut_at(check(function, arguments))


def test_writes_to_inputs_come_last():
    def function(x, count):
        x.add_(1)
        y = torch.ones(count.item()) * x.sum()
        x.mul_(2)
        return y, torch.nonzero(x).sum()

    check(function, [torch.randn(4), torch.tensor(3)])


def test_an_operator_that_writes_to_its_arguments():
    with torch.library._scoped_library("bascule_parts", "FRAGMENT") as library:
        library.define("accumulate(Tensor x, Tensor(a!) total) -> Tensor")
        library.impl("accumulate", lambda x, total: (total.add_(x), x * 2)[1], "CompositeExplicitAutograd")
        library.impl("accumulate", lambda x, total: torch.empty_like(x), "Meta")

        def function(x, total):
            y = torch.ops.bascule_parts.accumulate(x * 2, total)
            return y[y > 0] + 1, total * 2

        assert cut_at(check(function, [torch.randn(5), torch.randn(5)])) == ["aten.index.Tensor"]


def test_an_operator_that_writes_to_arguments_by_keyword():
    with torch.library._scoped_library("bascule_parts", "FRAGMENT") as library:
        library.define("scale(Tensor(a!) x, Tensor[] by, SymInt n, *, Tensor(b!)? count, SymInt step=2) -> ()")

        def scale(x, by, n, *, count, step=2):
            x.mul_(by[0] * n * step)
            if count is not None:
                count.add_(by[1])

        library.impl("scale", scale, "CompositeExplicitAutograd")

        def function(x, y, z, count):
            torch.ops.bascule_parts.scale(x, [y, z], 3, count=count)
            torch.ops.bascule_parts.scale(x, [z], 2, count=None, step=5)
            return x + 1, count * 2

        check(function, [torch.randn(5) for _ in range(4)])


def test_effects_keep_their_order(capfd):
    """Their tokens go through all of the graph, so that they run between the parts."""

    def function(x):
        torch.ops.aten._print("before")
        y = x[x > 0]
        torch.ops.aten._print("after")
        return y + 1

    records = check(function, [torch.randn(5)])
    assert cut_at(records).count("aten._print.default") == 2
    assert "before\nafter" in capfd.readouterr().out


def test_random_numbers_keep_their_order():
    """The generator's state goes through compiled parts and what is between them."""

    def function(x):
        a = torch.nonzero(torch.rand(8) > 0.5).shape[0]
        return a, torch.bernoulli(x), torch.rand(3)

    x = torch.full((64,), 0.5)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"}, fullgraph=True)
        runs = []
        for _ in range(2):
            torch.manual_seed(3)
            runs.append(compiled(x))
    torch.testing.assert_close(runs[0], runs[1])
    assert 0 < runs[0][1].sum() < 64


def masked_sum(x):
    return torch.relu(x)[x > 0].sum()


def test_what_cuts_a_graph_is_told_and_counted():
    reset_counters()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        explanation = bascule.explain(masked_sum, torch.randn(9), options={"on_error": "raise"})
    whole, *parts = explanation.graphs
    (cut,) = whole.cuts
    assert cut.startswith("aten.index.Tensor: sizes and numbers that it makes are only known when it has run")
    assert "test_split_module.py" in cut
    assert len(parts) == 2 and all(part.kernels for part in parts)
    assert cut.rsplit(" (", 1)[0] in str(explanation)
    assert "torch.ops.aten.index.Tensor(" in whole.wrapper
    assert list(counters()["cuts"].values()) == [1] and not counters()["fallbacks"]


def test_no_cut_with_fallback_error():
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(bascule.UnsupportedError, match=r"test_split_module.py:\d+:0: .*only known when"),
    ):
        torch.compile(masked_sum, backend="bascule", options={"fallback": "error"}, fullgraph=True)(torch.randn(9))


def test_a_check_of_a_number_that_fails():
    def checked(x, n):
        k = (n + 0).item()
        torch._check(k >= 0)
        torch._check(k < 3)
        return torch.zeros(k) + x

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(checked, backend="bascule", options={"on_error": "raise"}, fullgraph=True)
        compiled(torch.zeros(1), torch.tensor(2))
        with pytest.raises(RuntimeError, match="Runtime assertion failed"):
            compiled(torch.zeros(1), torch.tensor(7))


def test_integers_of_a_float_that_data_gives():
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(lambda x: x * int(x.sum().item() * 10), backend="bascule", fullgraph=True)
        for x in (torch.rand(5), -torch.rand(5)):
            torch.testing.assert_close(compiled(x), x * int(x.sum().item() * 10))
    (cut,) = (cut for cut in counters()["cuts"] if cut.startswith("aten.mul.Tensor"))
    assert "an integer is computed from the float zuf0, which data gives" in cut


def test_an_operator_that_fails_between_parts_names_the_users_line():
    def function(x, n):
        return torch.repeat_interleave(x * 2, n, dim=0) + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"}, fullgraph=True)
        with pytest.raises(RuntimeError) as error:
            compiled(torch.randn(2), torch.tensor([1, -1]))
    assert any("test_split_module.py" in note for note in error.value.__notes__)


# What the IR has no type for runs by itself.
DTYPES = {
    "complex32": (lambda x: (x.to(torch.complex32) * 2).real.float() + 1, [torch.randn(4)], False),
    "quantized": (
        lambda x: torch.quantize_per_tensor(x * 2, 0.1, 0, torch.qint8).dequantize() + 1,
        [torch.randn(4, 3)],
        True,
    ),
    "bits8": (lambda x: (x + 1).view(torch.bits8).view(torch.uint8) + 2, [torch.zeros(4, dtype=torch.uint8)], True),
    "float8_e8m0fnu": (lambda x: x.float() * 2, [torch.ones(4).to(torch.float8_e8m0fnu)], False),
    "float4_e2m1fn_x2": (lambda x: x.view(torch.uint8) + 1, [torch.zeros(4, dtype=torch.float4_e2m1fn_x2)], False),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", DTYPES)
def test_unusual_dtypes(name):
    if OLD and name in ("quantized", "bits8"):
        pytest.skip("Dynamo of PyTorch 2.11 does not capture it")
    function, arguments, cut = DTYPES[name]
    reset_counters()
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    torch.testing.assert_close(compiled(*arguments), function(*arguments))
    assert bool(counters()["cuts"]) == cut
    assert not counters()["fallbacks"]


def test_ragged_tensors():
    x = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
    compiled = torch.compile(lambda x: x.sin() * 2, backend="bascule", options={"on_error": "raise"}, fullgraph=True)
    for got, want in zip(compiled(x).unbind(), (x.sin() * 2).unbind()):
        torch.testing.assert_close(got, want)
