"""Tensor subclasses into, inside and out of a compiled function: a wrapper of two tensors, DTensor on one process."""

import os
from functools import cache

import torch
from torch.testing._internal.two_tensor import TwoTensor

from tests.wrapper.harness import DEVICE, Program, r


def pair(*sizes, grad=False):
    return TwoTensor(r(*sizes), r(*sizes)).requires_grad_(grad)


def parts(*tensors):
    """The plain tensors inside, and that each is a pair."""
    return [(t.a, t.b) if isinstance(t, TwoTensor) else t for t in tensors], [isinstance(t, TwoTensor) for t in tensors]


def in_and_out(compile_):
    return parts(compile_(lambda x, y: torch.sin(x) * y)(pair(3, 4), pair(3, 4)))


def beside_plain(compile_):
    return parts(*compile_(lambda x, y: (x + y, y * 2, x.t()))(pair(3, 3), r(3, 3)))


def made_inside(compile_):
    return parts(compile_(lambda x, y: TwoTensor(x * 2, y + 1))(r(3), r(3)))


def in_training(compile_):
    x, w = pair(3, 4, grad=True), r(4, 2, grad=True)
    out = compile_(lambda x, w: torch.tanh(x @ w))(x, w)
    out.sum().backward()
    return parts(out, x.grad, w.grad)


def subclass_tangent(compile_):
    x = pair(3, 4, grad=True)
    out = compile_(lambda x: torch.sin(x))(x)
    (grad,) = torch.autograd.grad(out, x, pair(3, 4))
    return parts(grad)


def written(compile_):
    x = pair(3, 4)
    out = compile_(lambda x, y: x.add_(y).sum())(x, pair(3, 4))
    return parts(out, x)


def parameter(compile_):
    module = torch.nn.Linear(4, 2).to(DEVICE)
    module.weight = torch.nn.Parameter(pair(2, 4))
    out = compile_(module)(r(3, 4))
    out.sum().backward()
    return parts(out, module.weight.grad, module.bias.grad)


def view_returned(compile_):
    x = pair(3, 4)
    return parts(*compile_(lambda x: (x.view(-1), x[1:] * 2))(x))


def twice_wrapped(compile_):
    inner = [TwoTensor(r(3), r(3)) for _ in range(2)]
    out = compile_(lambda x: x * 2 + 1)(TwoTensor(*inner))
    return [(t.a, t.b) for t in (out.a, out.b)]


def sizes_change(compile_):
    called = compile_(lambda x: (x * 2).sum(0))
    return [parts(called(pair(rows, 4))) for rows in (3, 5, 8)]


@cache
def mesh():
    from torch.distributed import init_process_group
    from torch.distributed.device_mesh import init_device_mesh

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    backend = "gloo" if DEVICE == "cpu" else "nccl"
    init_process_group(backend, rank=0, world_size=1, store=torch.distributed.HashStore())
    return init_device_mesh(DEVICE, (1,))


def sharded(compile_):
    from torch.distributed.tensor import Shard, distribute_tensor

    x, w = (distribute_tensor(t, mesh(), [Shard(0)]) for t in (r(4, 6), r(4, 6)))
    x.requires_grad_(True)
    out = compile_(lambda x, w: torch.sin(x) * w)(x, w)
    out.sum().backward()
    return out.to_local(), out.placements == w.placements, x.grad.to_local()


PROGRAMS = [
    Program("in and out", in_and_out),
    Program("beside a plain tensor", beside_plain),
    Program("made inside", made_inside),
    Program("in training", in_training),
    Program("a tangent", subclass_tangent),
    Program("written", written),
    Program("a parameter", parameter),
    Program("a view of one", view_returned),
    Program("of a subclass", twice_wrapped),
    Program("of sizes that change", sizes_change, dynamic=None),
    Program("DTensor", sharded),
]
