"""`compile_fx` and `compile_fx_inner`: graphs without Dynamo, Inductor's front with our compiler inside, custom passes, output strides."""

import operator

import pytest
import torch
from bascule.frontend.aot.compile_autograd import report_output_strides
from torch._functorch.aot_autograd import aot_function
from torch._guards import TracingContext, tracing
from torch._inductor.output_code import OutputCode
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import bascule
from bascule.entry.compile_fx import compile_fx, compile_fx_inner
from bascule.errors import UserError
from bascule.options import PASSES

aten = torch.ops.aten
RAISE = {"on_error": "raise"}


def traced(function, *args):
    return torch.fx.symbolic_trace(function), list(args)


def with_inductor(function):
    from torch._inductor.compile_fx import compile_fx as inductors

    def inner(*args, **kwargs):
        return compile_fx_inner(*args, **kwargs, options=RAISE)

    return torch.compile(function, backend=lambda gm, inputs: inductors(gm, inputs, inner_compile=inner))


def test_inner_takes_an_aten_graph_and_gives_output_code():
    def f(x, y):
        return (torch.sin(x) @ y, None, 3)

    inputs = [torch.randn(4, 5), torch.randn(5, 3)]
    compiled = compile_fx_inner(make_fx(f)(*inputs), inputs, cudagraphs=False, static_input_idxs=[1], is_inference=True)
    assert isinstance(compiled, OutputCode) and compiled._boxed_call
    args = list(inputs)
    out = compiled(args)
    assert args == []
    torch.testing.assert_close(out[0], f(*inputs)[0])
    assert out[1:] == (None, 3)


@pytest.mark.parametrize("returned", [lambda x: x, lambda x: {"x": x}, lambda x: (x, [x])])
def test_inner_refuses_what_is_no_flat_tuple(returned):
    x = torch.randn(4)
    gm = torch.fx.symbolic_trace(lambda x: returned(torch.ops.aten.sin.default(x)))
    with pytest.raises(UserError, match="one tuple or list"):
        compile_fx_inner(gm, [x], options=RAISE)


def test_inner_takes_none_and_numbers_as_inputs():
    """As `aot_function` hands them over."""

    def f(a, b, x):
        return x * a, b, x.sum()

    x = torch.randn(3, 2)
    product, nothing, total = aot_function(f, fw_compiler=compile_fx_inner)(2, None, x)
    torch.testing.assert_close([product, total], [x * 2, x.sum()])
    x.requires_grad_()
    product, nothing, total = aot_function(f, fw_compiler=compile_fx_inner)(2, None, x)
    (product.sum() + total).backward()
    assert nothing is None
    torch.testing.assert_close(x.grad, torch.full((3, 2), 3.0))


def test_inner_traces_a_graph_without_values():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(aten.softmax.int, (x, -1)),))
    gm = torch.fx.GraphModule({}, graph)
    x = torch.randn(4, 5)
    (out,) = compile_fx_inner(gm, [x], options=RAISE)([x])
    torch.testing.assert_close(out, torch.softmax(x, -1))


@pytest.mark.parametrize("name", ["cpp_wrapper", "fx_wrapper", "aot_mode"])
def test_inner_refuses_other_kinds_of_code(name):
    gm, inputs = traced(lambda x: (x + 1,), torch.ones(3))
    with pytest.raises(bascule.UserError, match=name):
        compile_fx_inner(gm, inputs, **{name: True})


def mlp(x, w, v):
    return torch.nn.functional.layer_norm(torch.nn.functional.gelu(x @ w), (6,)) @ v


def pooled(x, w, v):
    y = torch.nn.functional.max_pool2d(torch.nn.functional.conv2d(x, w), 2)
    return torch.nn.functional.interpolate(y, scale_factor=2, mode="bilinear") * v.sum()


FRONTS = {
    "mlp": (mlp, [(4, 5), (5, 6), (6, 3)]),
    "convolution": (pooled, [(2, 3, 8, 8), (4, 3, 3, 3), (3,)]),
    "softmax": (lambda x, w, v: torch.softmax(x @ w, -1).cumsum(0) @ v, [(4, 5), (5, 6), (6, 3)]),
    "gather": (lambda x, w, v: x[torch.tensor([1, 1, 3])] @ w @ v, [(4, 5), (5, 6), (6, 3)]),
    "statistics": (lambda x, w, v: (x @ w).var(-1, keepdim=True) * (w @ v).std(), [(4, 5), (5, 6), (6, 3)]),
}


@pytest.mark.parametrize("name", FRONTS)
def test_inductors_front_with_our_compiler_inside(name):
    function, sizes = FRONTS[name]
    inputs = [torch.randn(size, requires_grad=True) for size in sizes]
    out, wanted = with_inductor(function)(*inputs), function(*inputs)
    torch.testing.assert_close(out, wanted)
    tangent = torch.randn_like(wanted)
    got = torch.autograd.grad(out, inputs, tangent)
    torch.testing.assert_close(got, torch.autograd.grad(wanted, inputs, tangent), rtol=1e-4, atol=1e-5)
    assert bascule.counters()["graphs"] == {"compiled": 2}


def test_inductors_front_draws_again_what_it_recomputes():
    x = torch.ones(64, 64, requires_grad=True)
    out = with_inductor(lambda x: torch.nn.functional.dropout(torch.sin(x) * 2, 0.5))(x)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(grad == 0, out == 0)
    assert 0.4 < (out == 0).float().mean().item() < 0.6


def test_inductors_front_random_numbers():
    def f(x):
        return torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 3, 9)

    called, x = with_inductor(f), torch.empty(100, 200)
    torch.manual_seed(3)
    uniform, normal, whole = called(x)
    torch.manual_seed(3)
    again = called(x)
    assert all(map(torch.equal, (uniform, normal, whole), again))
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.01
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    assert sorted(whole.unique().tolist()) == [3, 4, 5, 6, 7, 8]


def test_inductors_front_mutation():
    def f(x, y):
        x.add_(y)
        return x.t() * 2

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    mine = x.clone()
    torch.testing.assert_close(with_inductor(f)(mine, y), f(x, y))
    torch.testing.assert_close(mine, x)


def test_one_tensor_returned():
    gm, inputs = traced(lambda x: x * 2, torch.randn(3))
    torch.testing.assert_close(compile_fx(gm, inputs, config_patches=RAISE)(*inputs), inputs[0] * 2)


def test_a_tree_returned():
    gm, inputs = traced(lambda x: {"a": x * 2, "b": [x + 1, (x, None)]}, torch.randn(3))
    out = compile_fx(gm, inputs, config_patches=RAISE)(*inputs)
    torch.testing.assert_close(out["a"], inputs[0] * 2)
    torch.testing.assert_close(out["b"][0], inputs[0] + 1)
    assert out["b"][1][1] is None


def test_lists_and_dictionaries_as_inputs():
    graph = torch.fx.Graph()
    listed, named = graph.placeholder("listed"), graph.placeholder("named")
    parts = [graph.call_function(operator.getitem, (listed, i)) for i in range(2)]
    total = graph.call_function(torch.add, (parts[0], graph.call_function(operator.getitem, (named, "k"))))
    graph.output((graph.call_function(torch.mul, (total, parts[1])),))
    gm = torch.fx.GraphModule({}, graph)
    a, b, c = torch.randn(3), torch.randn(3), torch.randn(3)
    (out,) = compile_fx(gm, [[a, b], {"k": c}], config_patches=RAISE)([a, b], {"k": c})
    torch.testing.assert_close(out, (a + c) * b)


def test_an_exported_graph_keeps_its_signature():
    def f(x, d):
        return {"out": x * d["k"], "list": [x + 1]}

    args = (torch.randn(3), {"k": torch.randn(3)})
    gm, _ = torch._dynamo.export(f)(*args)
    out = compile_fx(gm, list(args), config_patches=RAISE)(*args)
    torch.testing.assert_close(out, f(*args))


def test_no_operators():
    gm, inputs = traced(lambda x, y: (y, x, 5), torch.randn(3), torch.randn(2))
    out = compile_fx(gm, inputs, config_patches=RAISE)(*inputs)
    assert torch.equal(out[0], inputs[1]) and torch.equal(out[1], inputs[0]) and out[2] == 5


def ours(function):
    return torch.compile(function, backend=lambda gm, inputs: compile_fx(gm, inputs, config_patches=RAISE))


@pytest.mark.parametrize("front", [ours, with_inductor])
def test_graphs_that_operators_call(front):
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() + 1, (x,))

    call = front(f)
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(call(x), f(x))


def test_gradients_through_compile_fx():
    gm, (x,) = traced(lambda x: (torch.tanh(x) * x,), torch.randn(5, requires_grad=True))
    (out,) = compile_fx(gm, [x], config_patches=RAISE)(x)
    got = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(got, torch.autograd.grad((torch.tanh(x) * x).sum(), x))


def test_another_inner_compiler():
    seen = []

    def inner(gm, inputs, **kwargs):
        seen.append(kwargs)
        return compile_fx_inner(gm, inputs, options=RAISE, **kwargs)

    gm, (x,) = traced(lambda x: (x * 2,), torch.randn(5, requires_grad=True))
    compile_fx(gm, [x], inner_compile=inner)(x)[0].sum().backward()
    assert seen == [{"is_backward": False, "is_inference": False}, {"is_backward": True, "is_inference": False}]
    torch.testing.assert_close(x.grad, torch.full((5,), 2.0))


@pytest.mark.parametrize("ignored", [False, True])
def test_inputs_keep_their_sizes_where_the_trace_at_hand_is_to_be_ignored(ignored):
    sizes = []

    def inner(gm, inputs, **kwargs):
        sizes.extend(type(size) for x in inputs if isinstance(x, torch.Tensor) for size in x.shape)
        return compile_fx_inner(gm, inputs, options=RAISE, **kwargs)

    gm, (x,) = traced(lambda x: (x * 2,), torch.randn(5, 7))
    with tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv()))):
        compiled = compile_fx(gm, [x], inner_compile=inner, ignore_shape_env=ignored, compile_region_name="a region")
    assert sizes == [int if ignored else torch.SymInt] * 2
    torch.testing.assert_close(compiled(x)[0], x * 2)


def test_what_is_no_graph_is_refused():
    for entry in (compile_fx, compile_fx_inner):
        with pytest.raises(bascule.UserError, match=r"takes a torch\.fx\.GraphModule, got function"):
            entry(lambda x: x, [torch.randn(3)])
        with pytest.raises(bascule.UserError, match=r"has 1 inputs, got 2 for them\n.*placeholders: \w+"):
            entry(torch.fx.symbolic_trace(lambda x: (torch.sin(x),)), [torch.randn(3), torch.randn(3)])
    with pytest.raises(bascule.UserError, match="takes a function or a module, got 3"):
        bascule.memory_efficient_fusion(3)
    with pytest.raises(bascule.UserError, match="takes a function or a module, got 3"):
        bascule.explain(3)


def test_config_patches_are_checked():
    gm, inputs = traced(lambda x: (x,), torch.randn(3))
    with pytest.raises(bascule.UserError, match="no option 'max_fusion'"):
        compile_fx(gm, inputs, config_patches={"max_fusion": 3})


# Custom passes


def replace(old, new):
    def run(graph):
        for node in graph.nodes:
            if node.target is old:
                node.target = new

    return run


def test_a_pass_before_autograd():
    f = torch.compile(
        lambda x: torch.sin(x),
        backend="bascule",
        options={**RAISE, "pre_grad_custom_pass": replace(torch.sin, torch.cos)},
    )
    x = torch.randn(4, requires_grad=True)
    torch.testing.assert_close(f(x), torch.cos(x))
    torch.testing.assert_close(torch.autograd.grad(f(x).sum(), x)[0], -torch.sin(x).detach())


@pytest.mark.parametrize("name", ["joint_custom_pre_pass", "joint_custom_post_pass"])
@pytest.mark.parametrize("grad", [True, False])
def test_passes_over_the_joint_graph(name, grad):
    seen = []

    def note(graph):
        seen.append(sum(node.op == "placeholder" for node in graph.nodes))
        replace(aten.sin.default, aten.exp.default)(graph)

    f = torch.compile(lambda x: torch.sin(x), backend="bascule", options={**RAISE, name: note})
    x = torch.randn(4, requires_grad=grad)
    torch.testing.assert_close(f(x), torch.exp(x))
    assert seen == [2 if grad else 1], "the joint graph has the tangent as well"


@pytest.mark.parametrize("name", ["post_grad_custom_pre_pass", "post_grad_custom_post_pass"])
def test_passes_over_each_graph(name):
    graphs = []
    f = torch.compile(lambda x: torch.sin(x), backend="bascule", options={**RAISE, name: graphs.append})
    x = torch.randn(4, requires_grad=True)
    f(x).sum().backward()
    assert len(graphs) == 2
    assert aten.sin.default in {node.target for node in graphs[0].nodes}


@pytest.mark.parametrize("name", PASSES)
def test_inductors_settings_count_where_options_leave_them_open(name):
    seen = []
    x = torch.randn(4, requires_grad=True)
    with torch._inductor.config.patch(name, lambda graph: seen.append(graph)):
        torch.compile(lambda x: torch.sin(x), backend="bascule", options=RAISE)(x).sum().backward()
        assert len(seen) == (2 if name.startswith("post") else 1)
        torch._dynamo.reset()
        torch.compile(lambda x: torch.sin(x), backend="bascule", options={**RAISE, name: None})(x)
        assert len(seen) == (2 if name.startswith("post") else 1)


def test_inductors_front_leaves_passes_over_each_graph_to_us():
    seen = []
    with torch._inductor.config.patch("post_grad_custom_post_pass", lambda graph: seen.append(graph)):
        torch.testing.assert_close(with_inductor(torch.sin)(torch.ones(3)), torch.sin(torch.ones(3)))
    assert len(seen) == 1


def test_a_pass_that_breaks_the_graph_is_named():
    def breaks(graph):
        nodes = list(graph.nodes)
        nodes[-1].prepend(nodes[0])

    f = torch.compile(lambda x: x + 1, backend="bascule", options={"post_grad_custom_pre_pass": breaks})
    with pytest.raises(bascule.UserError, match="post_grad_custom_pre_pass"):
        f(torch.ones(3))


def test_a_pass_that_is_no_function_is_refused():
    with pytest.raises(bascule.UserError, match="a function"):
        torch.compile(lambda x: x + 1, backend="bascule", options={"joint_custom_pre_pass": 3})(torch.ones(3))


# Strides


def reported(fakify):
    mode = FakeTensorMode()
    x = mode.from_tensor(torch.randn(4, 5, requires_grad=True))
    context = TracingContext(mode)
    context.fakify_first_call = fakify
    gm = torch.fx.symbolic_trace(lambda x: ((x * 2).t(), x.sum(0)))
    with tracing(context), context.report_output_strides() as strides:
        with mode:
            graph = make_fx(gm)(x)
        report_output_strides(graph)
    return strides


@pytest.mark.parametrize("fakify", [True, False])
def test_output_strides_are_reported_to_the_tracing_context(fakify):
    assert reported(fakify) == [(1, 5), (1,)]


def test_the_first_call_under_a_fake_context_gives_fakes_with_the_compiled_strides():
    """DDP's optimizer calls what it has compiled with fake tensors, to trace what follows."""
    model = torch.nn.Linear(5, 3)
    gm = torch.fx.symbolic_trace(model)
    mode = FakeTensorMode()
    context = TracingContext(mode)
    context.fakify_first_call = True
    x = mode.from_tensor(torch.randn(4, 5))
    with tracing(context), mode:
        gm = torch.fx.symbolic_trace(lambda x: ((x * 2).t().clone(),))
        compiled = bascule.compile_fx(gm, [x], config_patches=RAISE)
        (out,) = compiled(x)
    assert isinstance(out, torch._subclasses.FakeTensor)
    assert out.shape == (5, 4) and out.stride() == (1, 5)


@pytest.mark.parametrize("name", [name for name in PASSES if name != "pre_grad_custom_pass"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_pass_need_not_give_its_nodes_values(name, dynamic):
    numbers = torch.arange(1.0, 4.0)

    def through_a_table(graph):
        (output,) = graph.find_nodes(op="output")
        graph.owning_module.register_buffer("table", numbers)
        with graph.inserting_before(output):
            flipped = graph.call_function(aten.permute.default, (output.args[0][0], [1, 0]))
            rows = graph.call_function(aten.mul.Tensor, (flipped, graph.get_attr("table")))
            back = graph.call_function(aten.permute.default, (rows, [1, 0]))
        output.args = ((back, *output.args[0][1:]),)

    f = torch.compile(lambda x: x + 1, backend="bascule", dynamic=dynamic, options={**RAISE, name: through_a_table})
    for columns in (4, 5):
        x = torch.randn(3, columns)
        torch.testing.assert_close(f(x), (x + 1) * numbers[:, None])


@pytest.mark.parametrize("inputs", [None, "x", torch.randn(1)])
def test_inputs_that_are_no_list_are_refused(inputs):
    gm = torch.fx.symbolic_trace(lambda x: (x.sin(),))
    for compile_ in (bascule.compile_fx, bascule.compile_fx_inner):
        with pytest.raises(bascule.UserError, match=f"takes a list of inputs, got {type(inputs).__name__}"):
            compile_(gm, inputs)
