"""Gradients through a compiled call: tangents, saved tensors and their hooks, the order of backwards, what is refused."""

import contextlib
import warnings

import torch

from tests.wrapper.harness import Case, Program, gradients, indices, r, raised


def expanded_sum(x):
    return x * 2 + x.sum(0)


def aliased(x):
    y = x * 2
    return y, y.t()


def _channels_last():
    return r(2, 3, 4, 5).to(memory_format=torch.channels_last)


def enabled_inside(x, w):
    """Called under `no_grad`."""
    with torch.no_grad():
        y = (x @ w).sin()
    with torch.enable_grad():
        return y, x * y.sum()


CASES = [
    Case("enabled inside of no_grad", enabled_inside, lambda: [r(3, 4, grad=True), r(4, 4, grad=True)], grad=False),
    Case("two inputs", lambda x, w: torch.tanh(x @ w), lambda: [r(4, 5, grad=True), r(5, 3, grad=True)]),
    Case("one input of two", lambda x, w: (x @ w).exp(), lambda: [r(4, 5), r(5, 3, grad=True)]),
    Case("through a returned view of an input", lambda x: (x.t(), x[1:] * 2), lambda: [r(4, 5, grad=True)]),
    Case("through aliases of an output", aliased, lambda: [r(4, 5, grad=True)]),
    Case("a product written", lambda x, w: (x * w).add_(1).relu_(), lambda: [r(4, 5, grad=True), r(4, 5)]),
    Case("sums of rows", lambda x: x.sum(1), lambda: [r(4, 5, grad=True)]),
    Case("expanded input", expanded_sum, lambda: [r(1, 5, grad=True).expand(4, 5)]),
    Case("transposed leaf", lambda x: (x * 2).sum(0), lambda: [r(5, 4).t().requires_grad_()]),
    Case("channels-last leaf", lambda x: x.relu() * 3, lambda: [_channels_last().requires_grad_()]),
    Case(
        "dynamic", lambda x, w: torch.softmax(x @ w, -1), lambda: [r(4, 5, grad=True), r(5, 3, grad=True)], dynamic=True
    ),
    Case("none flows to an unused input", lambda x, y: x * 2, lambda: [r(4, grad=True), r(4, grad=True)]),
    Case("detached part", lambda x: x * x.detach() + x.sum().detach(), lambda: [r(4, grad=True)]),
    Case("an output that needs none", lambda x, y: (x * 2, y + 1), lambda: [r(4, grad=True), r(4)]),
    Case("an integer output", lambda x: (x * 2, x.argmax()), lambda: [r(4, grad=True)]),
    Case("an input returned", lambda x: (x, x * 2), lambda: [r(4, grad=True)]),
    Case("an output returned twice", lambda x: (lambda y: (y, y))(x * 2), lambda: [r(4, grad=True)]),
    Case("gathered twice at one place", lambda x, i: x[i] * 2, lambda: [r(5, 3, grad=True), indices(1, 1, 4)]),
    Case("under no_grad", lambda x, w: torch.tanh(x @ w), lambda: [r(4, 5, grad=True), r(5, 3, grad=True)], grad=False),
    Case(
        "half precision",
        lambda x: torch.sigmoid(x) * x,
        lambda: [r(4, 5, grad=True, dtype=torch.bfloat16)],
        tolerance=2e-2,
    ),
    Case("f64", lambda x: torch.logsumexp(x, -1), lambda: [r(4, 5, grad=True, dtype=torch.float64)]),
    Case("0 dimensions", lambda x, y: x * y, lambda: [r(grad=True), r(3, grad=True)]),
    Case("empty", lambda x: x * 2 + 1, lambda: [r(0, 5, grad=True)]),
]


def tangent(make):
    """The backward is traced for the tangents it expects; others, by layout, must do too."""

    def run(compile_):
        x = r(4, 6, grad=True)
        out = compile_(lambda x: torch.sin(x) * 2)(x)
        (grad,) = torch.autograd.grad(out, x, make(out))
        return grad.contiguous()  # AOTAutograd brings tangents into the layout that it was traced with

    return run


def conjugated_tangent(compile_):
    x = r(4, 6, dtype=torch.complex64, grad=True)
    out = compile_(lambda x: torch.view_as_complex(torch.view_as_real(x) * 3))(x)
    return torch.autograd.grad(out, x, r(4, 6, dtype=torch.complex64).conj())[0].resolve_conj()


def zeros_without_memory(compile_):
    """The gradient of `sgn`, as autograd passes it on, from the first backward on and after others."""
    call, found = compile_(lambda x: torch.sin(x) * 2), []
    for after in (torch.sgn, torch.abs, torch.sgn, torch.sgn):
        x = r(4, 6, grad=True)
        after(call(x)).sum().backward()
        found.append(x.grad)
    return found


def lazy_backward(compile_):
    function = compile_(lambda x: torch.sin(x) * x)
    kept = []
    for size in (3, 4):
        x = r(size, grad=True)
        kept.append((x, function(x)))
    return [gradients([out], x) for x, out in reversed(kept)]


def retained(compile_):
    x = r(4, grad=True)
    out = compile_(lambda x: torch.sin(x) * x)(x)
    first = torch.autograd.grad(out.sum(), x, retain_graph=True)
    return first, torch.autograd.grad(out.sum(), x)


def freed_twice(compile_):
    x = r(4, grad=True)
    out = compile_(lambda x: torch.sin(x) * x)(x)
    torch.autograd.grad(out.sum(), x)
    return raised(RuntimeError, lambda: torch.autograd.grad(out.sum(), x))


def written_after_saving(compile_):
    """Autograd's check of versions sees what a compiled forward saved."""
    x, b = r(4, grad=True), r(4)
    out = compile_(lambda x, b: (x * b).sum())(x, b)
    b.add_(1)
    return raised(RuntimeError, out.backward)


def leaf_written(compile_):
    x = r(4, grad=True)
    return raised(Exception, lambda: compile_(lambda x: x.add_(1))(x))


def double_backward(compile_):
    """AOTAutograd makes no graph of the backward: it is refused, not wrong."""
    x = r(4, grad=True)
    out = compile_(lambda x: (x**3).sum())(x)
    (grad,) = torch.autograd.grad(out, x, create_graph=True)
    return (grad.detach(),)


def refused_double_backward(compile_):
    x = r(4, grad=True)
    out = compile_(lambda x: (x**3).sum())(x)
    (grad,) = torch.autograd.grad(out, x, create_graph=True)
    if compile_.__name__ == "<lambda>":  # eager can
        return "raised"
    return raised(RuntimeError, lambda: torch.autograd.grad(grad.sum(), x))


def custom_function(compile_):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    x = r(4, grad=True)
    out = compile_(lambda x: Double.apply(x) + 1)(x)
    return out, gradients([out], x)


class Dirty(torch.autograd.Function):
    """Writes its first operand."""

    @staticmethod
    def forward(ctx, x, y):
        x.mul_(3).add_(y)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 3, grad


def dirty_input(compile_):
    """A function writes an input of the graph, or a view of one, which needs gradients before, or from then on."""
    results = []
    for view in (lambda x: x, lambda x: x[1:], lambda x: x.t()):
        for needs in (True, False):
            leaf, y = r(3, 3, grad=needs), r(3, 3, grad=True)
            x = leaf * 1
            out = compile_(lambda x, y, view: Dirty.apply(view(x), view(y)) * 2)(x, y, view)
            results.append((out, x, x.requires_grad, gradients([out, x], *[leaf] * needs, y)))
    return results


def functional_gradient(compile_):
    return compile_(lambda x: torch.func.grad(lambda y: (y.sin() ** 2).sum())(x))(r(4))


def jvp(compile_):
    return compile_(lambda x, t: torch.func.jvp(lambda y: y.sin() * y, (x,), (t,)))(r(4), r(4))


def tensor_hooks(compile_):
    seen = []
    x = r(4, grad=True)
    x.register_hook(lambda g: g * 2)
    out = compile_(lambda x: torch.sin(x) * x)(x)
    out.register_hook(lambda g: seen.append(g.clone()))
    return torch.autograd.grad(out.sum(), x), seen


def saved_tensor_hooks(compile_):
    packed = []

    def pack(t):
        packed.append(1)
        return t.double()

    x = r(4, grad=True)
    function = compile_(lambda x: torch.sin(x) * x)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t.float()):
        out = function(x)
    return torch.autograd.grad(out.sum(), x), len(packed) > 0


def given_back(unpack):
    """Hooks owe the values of what was saved alone, in the second call too, where the first had none."""

    def run(compile_):
        function, found = compile_(lambda x, w: (x @ w).sin() * x.sum(1, keepdim=True)), []
        for hooked in (False, True, True):
            x, w = r(4, 6, grad=True), r(5, 6, grad=True)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack) if hooked else contextlib.nullcontext():
                out = function(x, w.t())
            found.append(gradients([out], x, w))
        return found

    return run


def column_major(t):
    return t.t().clone(memory_format=torch.contiguous_format).t()


def misaligned(t):
    return torch.cat([t.new_zeros(1), t.reshape(-1)])[1:].view(t.shape)


def saved_on_cpu(compile_):
    x = r(4, grad=True)
    function = compile_(lambda x: torch.sin(x) * x)
    with torch.autograd.graph.save_on_cpu():
        out = function(x)
    return torch.autograd.grad(out.sum(), x)


def anomaly(compile_):
    x = r(4, grad=True)
    with warnings.catch_warnings(), torch.autograd.detect_anomaly():
        out = compile_(lambda x: torch.sin(x) * x)(x)
        return torch.autograd.grad(out.sum(), x)


def output_written_in_training(compile_):
    x = r(4, grad=True)
    first, second = compile_(lambda x: (x * 2, x * 3))(x)
    first.add_(second)
    return first, gradients([first], x)


def no_output_needs_gradients(compile_):
    x = r(4, grad=True)
    return compile_(lambda x: (x.detach() * 2, x > 0))(x)


def set_grad_inside(compile_):
    def f(x, w):
        with torch.no_grad():
            scale = (x * w).sum()
        return x * scale + w

    x, w = r(4, grad=True), r(4, grad=True)
    out = compile_(f)(x, w)
    return out, gradients([out], x, w)


def requires_grad_changes(compile_):
    called = compile_(lambda x, y: x * y)
    results = []
    for one, other in ((False, False), (True, False), (False, True), (True, True)):
        x, y = r(4, grad=one), r(4, grad=other)
        out = called(x, y)
        wanted = [t for t in (x, y) if t.requires_grad]
        results.append((out, gradients([out], *wanted) if wanted else None))
    return results


PROGRAMS = [
    Program("a tangent that is transposed", tangent(lambda out: r(6, 4).t())),
    Program("a tangent that is expanded", tangent(lambda out: r(1, 6).expand(4, 6))),
    Program("a tangent with an offset", tangent(lambda out: r(8, 6)[3:7])),
    Program("a tangent with gaps", tangent(lambda out: r(4, 12)[:, ::2])),
    Program("a tangent of zeros", tangent(torch.zeros_like)),
    Program("a tangent that negates its memory", tangent(lambda out: torch._neg_view(r(4, 6)))),
    Program("a misaligned tangent", tangent(lambda out: r(25)[1:].view(4, 6))),
    Program("a conjugated tangent", conjugated_tangent),
    Program("tangents of zeros without memory", zeros_without_memory),
    Program("tangents of zeros without memory, dynamic sizes", zeros_without_memory, dynamic=True),
    Program("backwards compiled late, in another order", lazy_backward),
    Program("a backward run twice", retained),
    Program("a freed graph", freed_twice),
    Program("a saved tensor is written", written_after_saving),
    Program("a leaf is written", leaf_written),
    Program("hooks of tensors", tensor_hooks),
    Program("hooks of saved tensors", saved_tensor_hooks),
    Program("saved tensors on the CPU", saved_on_cpu),
    *(
        Program(f"saved tensors given back {how}{', dynamic' if dynamic else ''}", given_back(unpack), dynamic)
        for how, unpack in {
            "row-major": torch.Tensor.contiguous,
            "column-major": lambda t: column_major(t) if t.dim() == 2 else t,
            "misaligned": misaligned,
            "with gaps": lambda t: torch.stack([t, t], -1)[..., 0],
            "as what negates memory": lambda t: torch._neg_view(-t),
        }.items()
        for dynamic in (False, True)
    ),
    Program("create_graph without a second backward", double_backward),
    Program("a second backward is refused", refused_double_backward),
    Program("requires_grad that changes", requires_grad_changes),
    Program("an autograd.Function", custom_function),
    Program("an autograd.Function that writes an input", dirty_input),
    Program("func.grad", functional_gradient),
    Program("func.jvp", jvp),
    Program("outputs written by the caller, in training", output_written_in_training),
    Program("no output needs gradients", no_output_needs_gradients),
    Program("no_grad inside", set_grad_inside),
    Program("anomaly detection", anomaly),
]
