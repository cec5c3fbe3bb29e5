"""What frameworks do around a compiled call: gradients, hooks, checkpointing, autocast, modes, effects, random numbers."""

import io
import warnings

import torch
from harness import DEVICE, Case, Program, indices, r
from torch.utils.checkpoint import checkpoint


def expanded_sum(x):
    return x * 2 + x.sum(0)


def aliased(x):
    y = x * 2
    return y, y.t()


CASES = [
    Case("two inputs", lambda x, w: torch.tanh(x @ w), lambda: [r(4, 5, grad=True), r(5, 3, grad=True)]),
    Case("one input of two", lambda x, w: (x @ w).exp(), lambda: [r(4, 5), r(5, 3, grad=True)]),
    Case("through a returned view of an input", lambda x: (x.t(), x[1:] * 2), lambda: [r(4, 5, grad=True)]),
    Case("through aliases of an output", aliased, lambda: [r(4, 5, grad=True)]),
    Case("a product written", lambda x, w: (x * w).add_(1).relu_(), lambda: [r(4, 5, grad=True), r(4, 5)]),
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


def _channels_last():
    return r(2, 3, 4, 5).to(memory_format=torch.channels_last)


def gradients(out, *leaves):
    tangents = [torch.linspace(-1, 2, t.numel(), device=t.device).view(t.shape) for t in out]
    return list(torch.autograd.grad(out, leaves, tangents, allow_unused=True))


def mlp(dropout=0.0):
    layers = [torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(dropout), torch.nn.Linear(16, 4)]
    return torch.nn.Sequential(*layers).to(DEVICE)


class Counter(torch.nn.Module):
    """A buffer that every call changes, and batch norm's."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 5)
        self.norm = torch.nn.BatchNorm1d(5)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return self.norm(self.linear(x)) + self.calls


def buffers(training, grad):
    def run(compile_):
        module = Counter().double().to(DEVICE).train(training)
        called = compile_(module)
        with torch.set_grad_enabled(grad):
            outputs = [called(r(4, 5, dtype=torch.float64)) for _ in range(3)]
        if grad:
            sum(out.square().sum() for out in outputs).backward()
        return outputs, list(module.buffers()), [p.grad for p in module.parameters()]

    return run


def tangent(make):
    """The backward is traced for the tangents it expects; others, by layout, must do too."""

    def run(compile_):
        x = r(4, 6, grad=True)
        out = compile_(lambda x: torch.sin(x) * 2)(x)
        (grad,) = torch.autograd.grad(out, x, make(out))
        return grad.contiguous()  # AOTAutograd brings tangents into the layout that it was traced with

    return run


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


def raised(kind, call):
    try:
        call()
    except kind:
        return "raised"
    return "passed"


def written_after_saving(compile_):
    """Autograd's check of versions sees what a compiled forward saved."""
    x, b = r(4, grad=True), r(4)
    out = compile_(lambda x, b: (x * b).sum())(x, b)
    b.add_(1)
    return raised(RuntimeError, out.backward)


def leaf_written(compile_):
    x = r(4, grad=True)
    return raised(Exception, lambda: compile_(lambda x: x.add_(1))(x))


def accumulated(compile_):
    module = mlp()
    called = compile_(module)
    for _ in range(3):
        called(r(5, 8)).square().sum().backward()
    return [p.grad for p in module.parameters()]


def frozen_part(compile_):
    module = mlp()
    module[0].requires_grad_(False)
    compile_(module)(r(5, 8)).sum().backward()
    return [p.grad for p in module.parameters() if p.requires_grad]


def toggled_modes(compile_):
    module = mlp(0.0)
    called = compile_(module)
    x = r(5, 8)
    outputs = [called(x)]
    with torch.no_grad():
        outputs.append(called(x))
    with torch.inference_mode():
        outputs.append(called(x).clone())
    module.eval()
    return [*outputs, called(x)]


def tensor_hooks(compile_):
    seen = []
    x = r(4, grad=True)
    x.register_hook(lambda g: g * 2)
    out = compile_(lambda x: torch.sin(x) * x)(x)
    out.register_hook(lambda g: seen.append(g.clone()))
    return torch.autograd.grad(out.sum(), x), seen


def parameter_hooks(compile_):
    module, seen = mlp(), []
    for p in module.parameters():
        p.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    compile_(module)(r(5, 8)).sum().backward()
    return sorted(seen, key=lambda t: (t.shape, float(t.sum())))


def module_hooks(compile_):
    module, seen = mlp(), []
    module[0].register_forward_hook(lambda m, args, out: out * 2)
    module.register_full_backward_hook(lambda m, given, out: seen.append(out[0].clone()))
    out = compile_(module, fullgraph=False)(r(5, 8))
    out.sum().backward()
    return out, seen, [p.grad for p in module.parameters()]


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


def saved_on_cpu(compile_):
    x = r(4, grad=True)
    function = compile_(lambda x: torch.sin(x) * x)
    with torch.autograd.graph.save_on_cpu():
        out = function(x)
    return torch.autograd.grad(out.sum(), x)


def checkpointed(reentrant):
    def run(compile_):
        module = mlp()
        called = compile_(lambda x: checkpoint(module, x, use_reentrant=reentrant), fullgraph=False)
        x = r(5, 8, grad=True)
        out = called(x)
        out.square().sum().backward()  # a reentrant checkpoint takes no other call
        return out, x.grad, [p.grad for p in module.parameters()]

    return run


def checkpoint_around(compile_):
    module = mlp()
    called = compile_(module)
    x = r(5, 8, grad=True)
    out = checkpoint(called, x, use_reentrant=False)
    return out, gradients([out], x, *module.parameters())


def selective(compile_):
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    def policy(context, operator, *args, **kwargs):
        matmul = operator == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if matmul else CheckpointPolicy.PREFER_RECOMPUTE

    def block(x, w):
        return torch.sigmoid(torch.sin(x @ w) @ w)

    def contexts():
        return create_selective_checkpoint_contexts(policy)

    x, w = r(4, 4, grad=True), r(4, 4, grad=True)
    out = compile_(lambda x, w: checkpoint(block, x, w, use_reentrant=False, context_fn=contexts))(x, w)
    return out, gradients([out], x, w)


def autocast_inside(compile_):
    def f(x, w):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            return (x @ w).float() + 1

    x, w = r(4, 8, grad=True), r(8, 3, grad=True)
    out = compile_(f)(x, w)
    return out, gradients([out], x, w)


def autocast_outside(compile_):
    x, w = r(4, 8, grad=True), r(8, 3, grad=True)
    called = compile_(lambda x, w: torch.relu(x @ w))
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        out = called(x, w)
    return out.dtype, out, gradients([out.float()], x, w)


def autocast_forward_only(compile_):
    """The backward is compiled after autocast has ended and must not depend on it."""
    module = mlp()
    called = compile_(module)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        loss = called(r(5, 8)).float().square().sum()
    loss.backward()
    return loss, [p.grad for p in module.parameters()]


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


def dropout_recomputed(compile_):
    """A checkpointed dropout drops in the recompute what it dropped in the forward: the gradient is 0 exactly where the output is."""
    x = torch.ones(64, 64, device=DEVICE, requires_grad=True)

    def f(x):
        return checkpoint(lambda x: torch.nn.functional.dropout(torch.sin(x), 0.5), x, use_reentrant=False)

    out = compile_(f)(x)
    (grad,) = torch.autograd.grad(out.sum(), x)
    return torch.equal(grad == 0, out == 0), 0.4 < (out == 0).float().mean().item() < 0.6


def dropout_saved(compile_):
    x = torch.ones(64, 64, device=DEVICE, requires_grad=True)
    out = compile_(lambda x: torch.nn.functional.dropout(x * 2, 0.5))(x)
    (grad,) = torch.autograd.grad(out.sum(), x)
    return torch.equal(grad == 0, out == 0)


def seeded(compile_):
    """One seed, one result; the next call's numbers differ."""
    called = compile_(lambda x: torch.rand_like(x))
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append([called(torch.empty(50, device=DEVICE)) for _ in range(2)])
    (a, b), (c, d), (e, _) = results
    return torch.equal(a, c), torch.equal(b, d), torch.equal(a, b), torch.equal(a, e)


def random_distribution(compile_):
    x = compile_(lambda x: torch.randn_like(x))(torch.empty(20000, device=DEVICE))
    return abs(x.mean().item()) < 0.05, abs(x.std().item() - 1) < 0.05


def printed(compile_):
    """Ordered effects: a token threads the calls."""

    def f(x):
        torch.ops.aten._print("first")
        y = x * 2
        torch.ops.aten._print("second")
        return y + 1

    return compile_(f)(r(3))


def graph_break(compile_):
    def f(x):
        y = x * 2
        torch._dynamo.graph_break()
        y.add_(1)
        return y.sum() + x

    x = r(4, grad=True)
    out = compile_(f, fullgraph=False)(x)
    return out, gradients([out], x)


def sizes_change(compile_):
    called = compile_(lambda x, w: torch.softmax(x @ w, -1).sum(0))
    results = []
    for rows in (4, 7, 1, 9):
        x, w = r(rows, 5, grad=True), r(5, 3, grad=True)
        out = called(x, w)
        results.append((out, gradients([out], x, w)))
    return results


def strides_change(compile_):
    called = compile_(lambda x: x * 2 + 1)
    return [
        called(x)
        for x in (r(4, 5), r(5, 4).t(), r(8, 5)[::2], r(1, 5).expand(4, 5), r(4, 10)[:, ::2], r(21)[1:].view(4, 5))
    ]


def alignment_changes(compile_):
    """Alignment is no guard: code compiled for an aligned input meets others."""
    called = compile_(lambda x, w: (x @ w).relu() + x)
    results = []
    for offset in (0, 1, 2, 3, 0):
        storage = r(64 + 4)
        results.append(called(storage[offset : offset + 64].view(8, 8), r(8, 8)))
    return results


def requires_grad_changes(compile_):
    called = compile_(lambda x, y: x * y)
    results = []
    for one, other in ((False, False), (True, False), (False, True), (True, True)):
        x, y = r(4, grad=one), r(4, grad=other)
        out = called(x, y)
        wanted = [t for t in (x, y) if t.requires_grad]
        results.append((out, gradients([out], *wanted) if wanted else None))
    return results


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


def vmapped(compile_):
    return compile_(lambda x, y: torch.vmap(torch.dot)(x, y))(r(4, 5), r(4, 5))


def functional_gradient(compile_):
    return compile_(lambda x: torch.func.grad(lambda y: (y.sin() ** 2).sum())(x))(r(4))


def jvp(compile_):
    return compile_(lambda x, t: torch.func.jvp(lambda y: y.sin() * y, (x,), (t,)))(r(4), r(4))


def gradient_inside(compile_):
    module = mlp()

    def step(x):
        module.zero_grad()
        loss = module(x).square().sum()
        loss.backward()
        return loss.detach()

    loss = compile_(step, fullgraph=False)(r(5, 8))
    return loss, [p.grad for p in module.parameters()]


def tied_weights(compile_):
    module = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)).to(DEVICE)
    module[1].weight = module[0].weight
    out = compile_(module)(r(5, 6))
    out.square().sum().backward()
    return out, [p.grad for p in module.parameters()]


def weight_replaced(compile_):
    module = mlp()
    called = compile_(module)
    x = r(5, 8)
    first = called(x)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.ones_like(p) * 0.1)
    second = called(x)
    module.load_state_dict({name: p * 3 for name, p in module.state_dict().items()})
    return first.detach(), second.detach(), called(x).detach()


def pickled_output(compile_):
    out = compile_(lambda x: (x * 2).t())(r(4, 5))
    file = io.BytesIO()
    torch.save(out, file)
    file.seek(0)
    return torch.load(file)


def output_written(compile_):
    """Outputs are the caller's: writing them must not change what the next call, or another output, gives."""
    called = compile_(lambda x: (x * 2, x * 2, torch.arange(4.0, device=x.device)))
    x = r(4)
    for out in called(x):
        out.add_(100)
    return called(x)


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


def anomaly(compile_):
    x = r(4, grad=True)
    with warnings.catch_warnings(), torch.autograd.detect_anomaly():
        out = compile_(lambda x: torch.sin(x) * x)(x)
        return torch.autograd.grad(out.sum(), x)


PROGRAMS = [
    *(
        Program(
            f"buffers, {'train' if training else 'eval'}, gradients {'on' if grad else 'off'}", buffers(training, grad)
        )
        for training in (True, False)
        for grad in (True, False)
    ),
    Program("a tangent that is transposed", tangent(lambda out: r(6, 4).t())),
    Program("a tangent that is expanded", tangent(lambda out: r(1, 6).expand(4, 6))),
    Program("a tangent with an offset", tangent(lambda out: r(8, 6)[3:7])),
    Program("a tangent with gaps", tangent(lambda out: r(4, 12)[:, ::2])),
    Program("a tangent of zeros", tangent(torch.zeros_like)),
    Program("backwards compiled late, in another order", lazy_backward),
    Program("a backward run twice", retained),
    Program("a freed graph", freed_twice),
    Program("a saved tensor is written", written_after_saving),
    Program("a leaf is written", leaf_written),
    Program("gradients accumulated", accumulated),
    Program("part of a model frozen", frozen_part),
    Program("train, no_grad, inference_mode, eval", toggled_modes),
    Program("hooks of tensors", tensor_hooks),
    Program("hooks of parameters", parameter_hooks),
    Program("hooks of modules", module_hooks),
    Program("hooks of saved tensors", saved_tensor_hooks),
    Program("saved tensors on the CPU", saved_on_cpu),
    Program("checkpoint inside, not reentrant", checkpointed(False)),
    Program("checkpoint inside, reentrant", checkpointed(True)),
    Program("checkpoint around", checkpoint_around),
    Program("checkpoint that saves some operators", selective),
    Program("autocast inside", autocast_inside, tolerance=2e-2),
    Program("autocast outside", autocast_outside, tolerance=2e-2),
    Program("autocast, backward outside of it", autocast_forward_only, tolerance=3e-2),
    Program("create_graph without a second backward", double_backward),
    Program("a second backward is refused", refused_double_backward),
    Program("dropout, recomputed", dropout_recomputed),
    Program("dropout, saved", dropout_saved),
    Program("random numbers by seed", seeded),
    Program("normal numbers", random_distribution),
    Program("an ordered effect", printed),
    Program("a graph break", graph_break),
    Program("sizes that change", sizes_change, dynamic=None),
    Program("strides that change", strides_change),
    Program("alignment that changes", alignment_changes),
    Program("requires_grad that changes", requires_grad_changes),
    Program("an autograd.Function", custom_function),
    Program("vmap", vmapped),
    Program("func.grad", functional_gradient),
    Program("func.jvp", jvp),
    Program("backward inside the compiled function", gradient_inside),
    Program("tied weights", tied_weights),
    Program("weights replaced between calls", weight_replaced),
    Program("an output that is pickled", pickled_output),
    Program("outputs written by the caller", output_written),
    Program("outputs written by the caller, in training", output_written_in_training),
    Program("no output needs gradients", no_output_needs_gradients),
    Program("no_grad inside", set_grad_inside),
    Program("anomaly detection", anomaly),
]
