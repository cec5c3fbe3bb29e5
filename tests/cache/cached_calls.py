"""Calls that are compiled with a disk cache of their own (the fixture `folder`), for the tests of what is kept there."""

import torch

import bascule
from bascule.cache.disk.entry_paths import KINDS
from bascule.cache.disk.signing import content_of
from bascule.cache.disk.store import Store


def run(function, *args, dynamic=None, **options):
    """A first call in what is like a new process to the compiler."""
    torch._dynamo.reset()
    return torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise", **options})(*args)


def gated(x, w):
    return torch.sigmoid(x @ w) * x


def inputs():
    return torch.randn(4, 8), torch.randn(8, 8)


def entries(folder, of):
    assert of in KINDS
    return [path for path in (folder / of).rglob("*") if path.is_file()]


def counted():
    return bascule.counters()["cache"]


def store(folder, kind, limit=1 << 30):
    return Store(folder, kind, limit)


def opened(path):
    """The content of an entry."""
    return content_of(path.read_bytes())


def resigned(path, content):
    """Puts `content` in the place of an entry, as only who has the key of the directory can."""
    folder, kind = path.parents[2], path.parents[1].name
    Store(folder, kind, 1 << 30).write(path.name, content)
