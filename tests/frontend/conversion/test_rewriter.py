"""The walk of torch-to-bascule: arguments, results, what has no rule."""

import pytest
import torch
from bascule.dialect.errors import CompilerError, UnsupportedError
from bascule.dialect.ir import builders, context, shapes
from bascule.dialect.mlir import ir
from bascule.frontend.conversion.context import Asked
from bascule.frontend.conversion.registry import NoRule, load_rules
from bascule.frontend.conversion.rewriter import convert_module

from tests.frontend.interpreted import compiled

ONE = """
func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> attributes {bascule.graph} {
  %0 = torch.operator "torch.test.op"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> loc("model.py":7:0)
  return %0 : !torch.vtensor<[2],f32>
}
"""


def convert(text: str, fallback: str = "aten") -> str:
    with context():
        module = ir.Module.parse(text)
        convert_module(module, Asked(fallback))
        assert module.operation.verify()
        return str(module)


@pytest.fixture
def rule(monkeypatch):
    """Makes a function the rule of the operator in `ONE`."""
    return lambda function: monkeypatch.setitem(load_rules(), "test.op.default", function)


def test_a_refusal_is_the_reason_of_the_call(rule):
    def refuse(c, x):
        raise NoRule("not on a Sunday")

    rule(refuse)
    assert 'bascule.reason = "not on a Sunday"' in convert(ONE)
    with pytest.raises(UnsupportedError, match=r"model.py:7:0: test.op.default: not on a Sunday"):
        convert(ONE, fallback="error")


def test_a_rule_that_makes_another_type_is_a_bug(rule):
    def longer(c, x):
        return builders.compute(shapes.tensor_type([3], c.element()), [3], lambda at: builders.read(x, at))

    rule(longer)
    with pytest.raises(CompilerError, match=r"made tensor<3xf32>, the operator gives tensor<2xf32>"):
        convert(ONE)
    rule(lambda c, x: [x, x])
    with pytest.raises(CompilerError, match="made 2 results of 1"):
        convert(ONE)


def test_a_result_in_another_layout_is_seen_through_a_view(rule):
    rule(lambda c, x: x)
    text = ONE.replace('op"(%x) :', 'op"(%x) {bascule.layouts = [#bascule.layout<affine_map<(d0) -> (d0 * 3)>>]} :')
    assert '"bascule.view"' in convert(text)


def test_a_rule_sees_types(rule):
    seen = []

    def look(c, x):
        seen.append((c.operator, str(c.element()), str(c.layout()), str(c.results[0]), len(c.symbols)))
        return x

    rule(look)
    convert(ONE)
    assert seen == [("test.op.default", "f32", "(d0) -> (d0)", "tensor<2xf32>", 0)]


# Functions of tensors, and what they may call ATen for.
GRAPHS = {
    "views": (lambda x: (x.t(), x.view(-1), x[1:, ::2], x.split(3, 1)[1], x), [(3, 4)], set()),
    "duplicates": (lambda x: (x + 1, None, 3, x.t()), [(3, 4)], set()),
    "constants": (lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.tensor(2.5), [(3, 4)], set()),
    "mutation": (lambda x, y: (x.add_(1), y[1:].mul_(2), y.sum())[-1], [(3, 4), (3, 4)], set()),
    "product": (lambda x, y: torch.relu(x @ y), [(3, 4), (4, 2)], {"aten.mm.default"}),
    "storage": (lambda x: x[1:].as_strided((2, 2), (1, 2), 5) * 2, [(3, 4)], set()),
    "complex": (
        lambda x: torch.view_as_real(torch.view_as_complex(x) * (1 + 2j)),
        [(3, 4, 2)],
        {
            "aten.view_as_complex_copy.default",
            "aten.mul.Tensor",
            "aten.view_as_real_copy.default",
            "aten.scalar_tensor.default",
        },
    ),
    "effects": (
        lambda x: torch.linalg.inv(x @ x.t() + torch.eye(3)),
        [(3, 4)],
        {"aten.mm.default", "aten.linalg_inv_ex.default", "aten._linalg_check_errors.default"},
    ),
    "numbers": (lambda x: x * (x.shape[0] ** -0.5) + x.shape[1] / 3, [(3, 4)], set()),
    "foreach": (lambda x, y: torch._foreach_add([x, y], [y, x], alpha=2), [(3, 4), (3, 4)], set()),
    "norms": (lambda x: torch._foreach_norm([x, x * 2]), [(3, 4)], set()),
}


@torch.library.custom_op("bascule_test::accumulate", mutates_args={"total", "scaled"})
def accumulate(total: torch.Tensor, x: torch.Tensor, scaled: torch.Tensor, factor: int = 3) -> torch.Tensor:
    total.add_(x)
    scaled.mul_(factor)
    return total.sum(0)


accumulate.register_fake(lambda total, x, scaled, factor=3: torch.empty_like(total[0]))


@torch.library.custom_op("bascule_test::fill", mutates_args={"out"})
def fill(out: torch.Tensor, sources: list[torch.Tensor]) -> None:
    out.copy_(sources[0])


@torch.library.custom_op("bascule_test::fill_if_given", mutates_args={"out"})
def fill_if_given(out: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor:
    if out is not None:
        out.copy_(x)
    return x * 2


fill_if_given.register_fake(lambda out, x: torch.empty_like(x))


@torch.library.custom_op("bascule_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled.register_fake(torch.empty_like)


def mutating(x, y):
    doubled = x * 2
    total = accumulate(doubled[1:], y[1:], x)
    fill(doubled.t(), [y.t()])
    return doubled + 1, total


OPERATORS = {"bascule_test.accumulate.default", "bascule_test.fill.default"}
GRAPHS["custom operators that mutate"] = (mutating, [(3, 4), (3, 4)], OPERATORS)
GRAPHS["a custom operator that mutates, given nothing to write"] = (
    lambda x, y: fill_if_given(None, x + y) + fill_if_given(y, x),
    [(3, 4), (3, 4)],
    {"bascule_test.fill_if_given.default"},
)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_compute_what_eager_does(name, dynamic):
    if name == "storage" and dynamic:
        pytest.skip("clamped slices of symbolic sizes are no affine expressions")
    function, sizes, allowed = GRAPHS[name]
    torch.manual_seed(0)
    inputs = [torch.randn(size) for size in sizes]
    mine = [x.clone() for x in inputs]
    fast, backend = compiled(function, dynamic=dynamic)
    got, want = fast(*mine), function(*inputs)
    flat = torch.utils._pytree.tree_leaves
    for x, y in zip(flat(got), flat(want), strict=True):
        torch.testing.assert_close(x, y)
        if isinstance(y, torch.Tensor):
            assert x.stride() == y.stride()
    torch.testing.assert_close(mine, inputs)
    assert backend.called() <= allowed


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("place", [lambda s, n: s[3 : 3 + 3 * n].view(n, 3), lambda s, n: s[n : 4 * n].view(3, n).t()])
def test_a_custom_operator_writes_to_views_of_an_input_that_does_not_begin_its_storage(place, dynamic):
    """Its offset is a symbol where sizes are, that of a view of it too."""

    def twice(x, y):
        fill(x.t(), [y.t()])
        fill(x.t()[1:], [y.t()[:-1] * 2])
        return x + 1

    fast, backend = compiled(twice, dynamic=dynamic)
    for rows in (4, 5, 7)[: 3 if dynamic else 1]:
        mine, theirs = torch.arange(40.0), torch.arange(40.0)
        y = torch.randn(rows, 3)
        torch.testing.assert_close(fast(place(mine, rows), y), twice(place(theirs, rows), y))
        torch.testing.assert_close(mine, theirs)
    assert backend.called() <= {"bascule_test.fill.default"}


def test_an_operator_without_a_rule_is_an_error_on_demand():
    fast, _ = compiled(lambda x: doubled(x), fallback="error")
    with pytest.raises(Exception, match=r"test_rewriter.py:\d+:0: bascule_test.doubled.default: no rule"):
        fast(torch.rand(3) + 1)
