"""Calls that are compiled with a disk cache of their own (the fixture `folder`), for the tests of what is kept there."""

import torch

import bascule


def run(function, *args, dynamic=None, **options):
    """A first call in what is like a new process to the compiler."""
    torch._dynamo.reset()
    return torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise", **options})(*args)


def gated(x, w):
    return torch.sigmoid(x @ w) * x


def inputs():
    return torch.randn(4, 8), torch.randn(8, 8)


def entries(folder, of):
    return [path for path in (folder / of).rglob("*") if path.is_file()]


def counted():
    return bascule.counters()["cache"]
