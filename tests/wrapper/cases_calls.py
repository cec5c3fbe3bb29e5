"""Changes from call to call: sizes, strides, alignment, random numbers, effects, what the caller does with the outputs."""

import io

import torch
from torch.utils.checkpoint import checkpoint

from tests.wrapper.harness import DEVICE, Program, gradients, r


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


def vmapped(compile_):
    return compile_(lambda x, y: torch.vmap(torch.dot)(x, y))(r(4, 5), r(4, 5))


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


PROGRAMS = [
    Program("dropout, recomputed", dropout_recomputed),
    Program("dropout, saved", dropout_saved),
    Program("random numbers by seed", seeded),
    Program("normal numbers", random_distribution),
    Program("an ordered effect", printed),
    Program("a graph break", graph_break),
    Program("sizes that change", sizes_change, dynamic=None),
    Program("strides that change", strides_change),
    Program("alignment that changes", alignment_changes),
    Program("vmap", vmapped),
    Program("an output that is pickled", pickled_output),
    Program("outputs written by the caller", output_written),
]
