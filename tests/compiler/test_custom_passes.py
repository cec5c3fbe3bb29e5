"""Passes of the user's own over FX graphs: what they may leave, what is refused, and what their graphs promised outside."""

import warnings
from pathlib import Path

import pytest
import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch._inductor import custom_graph_pass
from torch.compiler import nested_compile_region
from torch.nn.attention.flex_attention import flex_attention

import bascule
from bascule.options import JOINT, PASSES, POST_GRAD, PRE_GRAD

aten = torch.ops.aten
RAISE = {"on_error": "raise"}
ON_ATEN = (*JOINT, *POST_GRAD)

torch.library.define("graph_pass_test::twice", "(Tensor x) -> Tensor")
torch.library.impl("graph_pass_test::twice", "CPU", lambda x: x * 2)
torch.library.register_fake("graph_pass_test::twice", lambda x: torch.empty_like(x))


def compiled(function, name, graph_pass, **kwargs):
    return torch.compile(function, backend="bascule", options={**RAISE, name: graph_pass}, **kwargs)


def sines(graph):
    return [node for node in graph.nodes if node.target is aten.sin.default]


def computed(node, target, *args, **kwargs):
    """A call after `node`, of what it gives, in its place."""
    with node.graph.inserting_after(node):
        new = node.graph.call_function(target, (node, *args), kwargs)
    node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
    return new


def column_major(graph):
    """Lays the results of sines out by columns."""
    for node in sines(graph):
        rows = computed(node, aten.permute.default, [1, 0])
        copy = computed(rows, aten.clone.default, memory_format=torch.contiguous_format)
        computed(copy, aten.permute.default, [1, 0])


@pytest.mark.parametrize("name", ON_ATEN)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_outputs_keep_the_strides_of_eager(name, dynamic, grad):
    def f(x):
        return torch.sin(x), torch.sin(x + 1).t(), torch.sin(x).sum()

    g = compiled(f, name, column_major, dynamic=dynamic)
    for rows in (4, 5):
        x = torch.randn(rows, 6, requires_grad=grad)
        found, wanted = g(x), f(x)
        torch.testing.assert_close(found, wanted)
        assert [y.stride() for y in found] == [y.stride() for y in wanted]
        if grad:
            torch.testing.assert_close(*(torch.autograd.grad(y[0].sum() + y[1].sum(), x) for y in (found, wanted)))


def test_a_layout_inside_the_graph_is_the_passs_own():
    def channels_last(graph):
        for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
            computed(node, aten.clone.default, memory_format=torch.channels_last)

    model, x = torch.nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8)
    found = compiled(model, "post_grad_custom_pre_pass", channels_last)(x)
    torch.testing.assert_close(found, model(x))
    assert found.is_contiguous()


def test_an_expanded_result_has_memory_again():
    def first_row(graph):
        for node in sines(graph):
            computed(computed(node, aten.slice.Tensor, 0, 0, 1), aten.expand.default, [4, 6])

    x = torch.randn(4, 6)
    found = compiled(torch.sin, "post_grad_custom_post_pass", first_row)(x)
    assert found.stride() == (6, 1)
    torch.testing.assert_close(found, torch.sin(x)[:1].expand(4, 6))


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_may_return_a_graph(name):
    def with_cosines(graph):
        new = torch.fx.Graph()
        new.output(new.graph_copy(graph, {}))
        for node in new.nodes:
            node.target = {torch.sin: torch.cos, aten.sin.default: aten.cos.default}.get(node.target, node.target)
        return new

    x = torch.randn(4, 6)
    torch.testing.assert_close(compiled(lambda x: torch.sin(x) * 2, name, with_cosines)(x), torch.cos(x) * 2)


@pytest.mark.parametrize("name", ON_ATEN)
def test_a_pass_may_call_custom_operators(name):
    def twice(graph):
        for node in sines(graph):
            computed(node, torch.ops.graph_pass_test.twice.default)

    x = torch.randn(4, 6)
    torch.testing.assert_close(compiled(lambda x: torch.sin(x) + 1, name, twice)(x), torch.sin(x) * 2 + 1)


@pytest.mark.parametrize("name", ON_ATEN)
def test_values_follow_what_a_pass_changed(name):
    def in_halves(graph):
        for node in sines(graph):
            with graph.inserting_before(node):
                half = graph.call_function(torch.ops.prims.convert_element_type.default, (node.args[0], torch.float16))
            node.args = (half,)

    x = torch.randn(4, 6)
    found = compiled(lambda x: torch.sin(x) * 2, name, in_halves)(x)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found, torch.sin(x.half()) * 2)


def test_a_pass_may_leave_the_choice_of_an_overload():
    def cosine(graph):
        for node in sines(graph):
            node.target = aten.cos

    x = torch.randn(4, 6)
    torch.testing.assert_close(compiled(torch.sin, "post_grad_custom_pre_pass", cosine)(x), torch.cos(x))


@pytest.mark.parametrize("written", ["an input", "an intermediate"])
def test_a_pass_may_write_in_place(written):
    def in_place(graph):
        for node in graph.nodes:
            if written == "an input" and node.target is aten.sin.default:
                node.target = aten.sin_.default
            elif written == "an intermediate" and node.target is aten.add.Tensor:
                node.target = aten.add_.Tensor

    x = torch.randn(4, 6)
    given = x.clone()
    found = compiled(lambda x: torch.sin(x) + 1, "post_grad_custom_pre_pass", in_place)(given)
    torch.testing.assert_close(found, torch.sin(x) + 1)
    torch.testing.assert_close(given, torch.sin(x) if written == "an input" else x)


def raises(graph):
    graph.eliminate_dead_code()
    raise ValueError("there is no such pattern")


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("grad", [False, True])
def test_a_pass_that_raises_is_named(name, grad):
    line = raises.__code__.co_firstlineno + 2
    says = f"'{name}': raised ValueError: there is no such pattern\n  at .*{Path(__file__).name}:{line}"
    with pytest.raises(bascule.UserError, match=says):
        compiled(torch.sin, name, raises)(torch.randn(3, requires_grad=grad))


def two_outputs(graph):
    end = graph.output_node()
    end.args = ((*end.args[0], *end.args[0]),)


def without_inputs(graph):
    (x,) = graph.find_nodes(op="placeholder")
    with graph.inserting_before(x):
        x.replace_all_uses_with(graph.call_function(aten.full.default, ([3], 1.0)))
    graph.erase_node(x)


def with_method(graph):
    for node in sines(graph):
        node.op, node.target = "call_method", "cos"


def with_function(graph):
    for node in sines(graph):
        node.target = torch.cos


def with_arguments(graph):
    for node in sines(graph):
        node.args = (*node.args, 3)


@pytest.mark.parametrize("name", POST_GRAD)
@pytest.mark.parametrize(
    ("graph_pass", "says"),
    [
        (two_outputs, "it has 2 outputs where there were 1"),
        (without_inputs, "it has 0 inputs where there were 1"),
        (with_method, "'sin' calls 'cos', which is no operator of ATen"),
        (with_function, "'sin' calls 'cos', which is no operator of ATen"),
        (with_arguments, "at most 1 argument"),
    ],
)
def test_what_a_pass_leaves_is_checked(name, graph_pass, says):
    with pytest.raises(bascule.UserError, match=f"'{name}': left a graph that is not valid: .*{says}"):
        compiled(torch.sin, name, graph_pass)(torch.randn(3))


def test_a_class_is_no_pass():
    class Pass:
        def __call__(self, graph): ...

    with pytest.raises(bascule.UserError, match="takes a function"):
        compiled(torch.sin, "joint_custom_pre_pass", Pass)(torch.randn(3))


class Named:
    """A pass that the disk cache can tell from others."""

    def __init__(self, graph_pass, name):
        self.graph_pass, self.name = graph_pass, name

    def __call__(self, graph):
        self.graph_pass(graph)

    def uuid(self):
        return self.name


def doubled(graph):
    for node in sines(graph):
        computed(node, aten.mul.Tensor, 2)


@pytest.mark.parametrize("name", ON_ATEN)
@pytest.mark.parametrize("kind", [list, tuple])
def test_passes_in_turn(name, kind):
    x = torch.randn(5)
    passes = kind([Named(doubled, "doubled"), doubled])
    torch.testing.assert_close(compiled(torch.sin, name, passes)(x), 4 * torch.sin(x))
    with torch._inductor.config.patch({name: passes}):
        torch.testing.assert_close(
            torch.compile(torch.sin, backend="bascule", options=RAISE)(x + 1), 4 * torch.sin(x + 1)
        )


def test_a_list_of_something_else():
    with pytest.raises(bascule.UserError, match=r"takes a function or None, got \[3\]"):
        compiled(torch.sin, "post_grad_custom_pre_pass", [3])(torch.randn(5))


@pytest.mark.skipif(
    not hasattr(custom_graph_pass, "CustomInferenceAwareGraphPass"), reason="this PyTorch has no such passes"
)
def test_a_pass_that_is_told_of_inference():
    told = []

    class Aware(custom_graph_pass.CustomInferenceAwareGraphPass):
        def __call__(self, graph, is_inference):
            told.append(is_inference)

        def uuid(self):
            return "aware"

    call = compiled(torch.sin, "post_grad_custom_post_pass", Aware())
    call(torch.randn(7, requires_grad=True)).sum().backward()
    call(torch.randn(7))
    assert told == [False, False, True]


def test_a_partitioner():
    from torch._functorch.partitioners import default_partition

    asked = []

    def split(joint, inputs, *, compiler, **kwargs):
        asked.append(compiler)
        return default_partition(joint, inputs, **kwargs)

    x = torch.randn(5, 6, requires_grad=True)
    f = lambda x: torch.softmax(x.sin(), 1).cos()  # noqa: E731
    with torch._inductor.config.patch(custom_partitioner_fn=split):
        found = torch.compile(f, backend="bascule", options=RAISE)(x)
    torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), x) for y in (found, f(x))))
    assert asked == ["inductor"]


def fails(joint, inputs, **kwargs):
    raise ValueError("no cut is small")


@pytest.mark.parametrize(
    ("split", "says"),
    [
        (fails, r"raised ValueError: no cut is small(.|\n)*test_custom_passes.py"),
        (lambda *a, **k: 3, "no pair of graphs, but 3"),
    ],
)
def test_a_partitioner_that_fails(split, says):
    with pytest.raises(bascule.UserError, match=f"option 'custom_partitioner_fn': (.|\n)*{says}"):
        compiled(torch.sin, "custom_partitioner_fn", split)(torch.randn(5, requires_grad=True))


def test_settings_that_are_not_followed():
    from bascule import inductor_options

    inductor_options._warn_of_setting.cache_clear()
    with (
        torch._inductor.config.patch(
            post_grad_fusion_options={"batch_linear": {}}, _pre_fusion_custom_pass=lambda nodes: nodes
        ),
        pytest.warns(UserWarning) as told,
    ):
        for size in (3, 4, 5):
            torch.compile(torch.sin, backend="bascule", dynamic=False)(torch.randn(size))
    (first, second) = (str(one.message) for one in told if "Bascule does not follow it" in str(one.message))
    assert "config.post_grad_fusion_options is set" in first and "_pre_fusion_custom_pass" in second


def _told(**settings):
    from bascule import inductor_options

    inductor_options._warn_of_setting.cache_clear()
    torch._dynamo.reset()
    with torch._inductor.config.patch(settings), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.compile(torch.sin, backend="bascule")(torch.randn(3))
    return [str(one.message) for one in told if "Bascule does not follow it" in str(one.message)]


@pytest.mark.parametrize(
    "name", ["deterministic", "batch_invariant", "use_fast_math", "epilogue_fusion", "cpp.dynamic_threads"]
)
def test_any_setting_is_followed_or_told_of(name):
    if name not in torch._inductor.config.get_config_copy():
        pytest.skip("this PyTorch has no such setting")
    (told,) = _told(**{name: not getattr(torch._inductor.config, name)})
    assert f"config.{name} is set" in told


def test_settings_left_as_they_are_say_nothing():
    config = torch._inductor.config
    assert not _told(nan_asserts=True, deterministic=config.deterministic)


def test_deterministic_algorithms_are_followed():
    """PyTorch sets Inductor's setting beside its own."""
    torch.use_deterministic_algorithms(True)
    try:
        assert not _told()
    finally:
        torch.use_deterministic_algorithms(False)
    if "deterministic" in torch._inductor.config.get_config_copy():
        (told,) = _told(deterministic=True)
        assert "torch.use_deterministic_algorithms(True) is followed" in told


def test_saved_arguments_are_another_backends():
    (told,) = _told(save_args=True)
    assert "bascule_dump" in told


@nested_compile_region
def region(x):
    return x.sin()


# Each calls a graph with a sine in it, and only there.
CALLING = {
    "cond": lambda x: torch.cond(x.sum() > -99, lambda x: x.sin(), lambda x: x.tanh(), (x,)),
    "while_loop": lambda x: while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y.sin()), (torch.tensor(0), x))[1],
    "scan": lambda x: scan(lambda c, x: (c + x, x.sin()), x[0], x)[1],
    "map": lambda x: map_over(lambda x: x.sin(), x),
    "invoke_subgraph": lambda x: region(x),
    "flex_attention": lambda x: flex_attention(
        x[None, None], x[None, None], x[None, None], score_mod=lambda s, b, h, i, j: s.sin()
    )[0, 0],
    "cond in cond": lambda x: torch.cond(
        x.sum() > -99,
        lambda x: torch.cond(x.sum() > -99, lambda x: x.sin(), lambda x: x.tanh(), (x,)),
        lambda x: x.tanh(),
        (x,),
    ),
}


def to_cosines(graph):
    for node in graph.nodes:
        if node.op == "call_method" and node.target == "sin":
            node.target = "cos"
        node.target = {torch.sin: torch.cos, aten.sin.default: aten.cos.default}.get(node.target, node.target)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("calling", CALLING)
def test_a_pass_meets_the_graphs_that_operators_call(calling, name):
    x = torch.rand(16, 16)
    with torch.no_grad():
        found = compiled(CALLING[calling], name, to_cosines)(x)
        wanted = compiled(CALLING[calling], "pre_grad_custom_pass", lambda graph: None)(x)
        assert not torch.allclose(found, wanted)
        if calling in ("cond", "map", "invoke_subgraph", "cond in cond"):
            torch.testing.assert_close(found, x.cos())


@pytest.mark.parametrize("name", (*PRE_GRAD, *JOINT))
@pytest.mark.parametrize("calling", ["cond", "map", "invoke_subgraph", "scan"])
def test_a_pass_meets_them_with_gradients(calling, name):
    met = []

    def meets(graph):
        met.extend(node for node in graph.nodes if node.target in ("sin", torch.sin, aten.sin.default))

    compiled(CALLING[calling], name, meets)(torch.rand(16, 16, requires_grad=True)).sum().backward()
    assert met


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_that_raises_inside_is_named(name):
    def refuses(graph):
        if any(node.target in ("sin", torch.sin, aten.sin.default) for node in graph.nodes):
            raise ValueError("no sines")

    with pytest.raises(bascule.UserError, match=f"'{name}': raised ValueError: no sines"):
        compiled(CALLING["cond"], name, refuses)(torch.rand(16, 16))
