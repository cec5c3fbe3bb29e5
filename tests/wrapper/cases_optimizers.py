"""Optimizers compiled whole: `torch.compile(optimizer.step)`. Parameters and state are written where they are, with no tensor made for them."""

import torch

from tests.wrapper.harness import DEVICE, Program

STEPS = 3


def steps(make, compile_step=True, closure=False):
    """Parameters and state after some steps of `make(parameters)`."""

    def run(compile_):
        parameters = [torch.nn.Parameter(torch.randn(size, device=DEVICE)) for size in ((5, 3), (7,), (2, 2, 2))]
        gradients = [[torch.randn_like(p) for p in parameters] for _ in range(STEPS)]
        optimizer = make(parameters)
        step = compile_(optimizer.step, fullgraph=False)
        places = None
        for grads in gradients:
            for p, grad in zip(parameters, grads):
                p.grad = grad
            step()
            state = [t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
            now = [t.data_ptr() for t in (*parameters, *state)]
            same, places = places is None or places == now, now
        # Dynamo itself moves the counts of steps to the parameters' device (`OptimizerVariable.move_step_if_cpu`), for every backend.
        return [p.detach() for p in parameters], [t.to(DEVICE) for t in state], same

    return run


FORMS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}}
o = torch.optim
KINDS = {
    "SGD": (o.SGD, {"lr": 0.1}),
    "SGD, momentum": (o.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "Adam": (o.Adam, {"lr": 0.1}),
    "Adam, amsgrad": (o.Adam, {"lr": 0.1, "amsgrad": True, "weight_decay": 0.01}),
    "AdamW": (o.AdamW, {"lr": 0.1}),
    "Adamax": (o.Adamax, {"lr": 0.1}),
    "NAdam": (o.NAdam, {"lr": 0.1}),
    "RAdam": (o.RAdam, {"lr": 0.1}),
    "Adagrad": (o.Adagrad, {"lr": 0.1}),
    "Adadelta": (o.Adadelta, {"lr": 0.1}),
    "RMSprop": (o.RMSprop, {"lr": 0.1, "momentum": 0.9, "centered": True}),
    "Rprop": (o.Rprop, {"lr": 0.1}),
    "ASGD": (o.ASGD, {"lr": 0.1}),
}
FUSED = {
    "SGD": (o.SGD, {"lr": 0.1, "momentum": 0.9}),
    "Adam": (o.Adam, {"lr": 0.1}),
    "AdamW": (o.AdamW, {"lr": 0.1, "weight_decay": 0.01}),
    **({"Adagrad": (o.Adagrad, {"lr": 0.1})} if DEVICE == "cpu" else {}),  # PyTorch has no such kernel on GPUs
}


def made(cls, **arguments):
    return lambda parameters: cls(parameters, **arguments)


def scheduled(compile_):
    """The rate is a tensor, so that a schedule does not compile again."""
    p = torch.nn.Parameter(torch.randn(5, device=DEVICE))
    optimizer = o.Adam([p], lr=torch.tensor(0.1, device=DEVICE))
    schedule = o.lr_scheduler.LinearLR(optimizer, total_iters=3)
    step = compile_(optimizer.step, fullgraph=False)
    for _ in range(4):
        p.grad = torch.ones_like(p)
        step()
        schedule.step()
    return p.detach()


def whole_step(compile_):
    """Forward, backward, step and zero_grad in one function."""
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(DEVICE)
    optimizer = o.AdamW(module.parameters(), lr=0.01)

    def train(x):
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    train = compile_(train, fullgraph=False)
    return [train(torch.randn(4, 6, device=DEVICE)) for _ in range(3)], [p.detach() for p in module.parameters()]


def clipped(compile_):
    parameters = [torch.nn.Parameter(torch.randn(n, device=DEVICE)) for n in (3, 8)]
    for p in parameters:
        p.grad = torch.randn_like(p) * 10
    norm = compile_(lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0), fullgraph=False)()
    return norm, [p.grad for p in parameters]


PROGRAMS = [
    *(
        Program(f"{name}, {form}", steps(made(cls, **arguments, **more)), tolerance=2e-5)
        for name, (cls, arguments) in KINDS.items()
        for form, more in FORMS.items()
    ),
    *(
        Program(f"{name}, fused", steps(made(cls, **arguments, fused=True)), tolerance=2e-5)
        for name, (cls, arguments) in FUSED.items()
    ),
    Program("Adam, capturable", steps(made(o.Adam, lr=0.1, capturable=DEVICE != "cpu")), tolerance=2e-5),
    Program("Adam, rate as a tensor and a schedule", scheduled, tolerance=2e-5),
    Program("a whole training step", whole_step, tolerance=2e-5),
    Program("gradients clipped", clipped, tolerance=2e-5),
]
