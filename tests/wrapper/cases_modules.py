"""Compiled modules in training: buffers, parameters, hooks of modules, checkpointing, autocast, modes."""

import torch
from torch.utils.checkpoint import checkpoint

from tests.wrapper.harness import DEVICE, Program, gradients, r


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


PROGRAMS = [
    *(
        Program(
            f"buffers, {'train' if training else 'eval'}, gradients {'on' if grad else 'off'}", buffers(training, grad)
        )
        for training in (True, False)
        for grad in (True, False)
    ),
    Program("gradients accumulated", accumulated),
    Program("part of a model frozen", frozen_part),
    Program("train, no_grad, inference_mode, eval", toggled_modes),
    Program("hooks of parameters", parameter_hooks),
    Program("hooks of modules", module_hooks),
    Program("checkpoint inside, not reentrant", checkpointed(False)),
    Program("checkpoint inside, reentrant", checkpointed(True)),
    Program("checkpoint around", checkpoint_around),
    Program("checkpoint that saves some operators", selective),
    Program("autocast inside", autocast_inside, tolerance=2e-2),
    Program("autocast outside", autocast_outside, tolerance=2e-2),
    Program("autocast, backward outside of it", autocast_forward_only, tolerance=3e-2),
    Program("backward inside the compiled function", gradient_inside),
    Program("tied weights", tied_weights),
    Program("weights replaced between calls", weight_replaced),
]
