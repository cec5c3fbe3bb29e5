"""Inputs that are given the memory of another tensor (`x.data = y`), and writes to it: as eager leaves them, whoever shares it."""

import subprocess
import sys
import warnings
from itertools import product

import pytest
import torch

import bascule
from bascule.errors import FallbackWarning
from bascule.reporting.counters import reset_counters

SOURCES = {
    "computed": lambda y: y.sin(),
    "an input": lambda y: y,
    "a view": lambda y: y[1:3],
    "transposed": lambda y: y.t(),
    "of another size": lambda y: torch.ones(7) * y.sum(),
}


def nothing(x, z):
    pass


def before_it(x, z):
    x.mul_(2)


def to_the_input(x, z):
    x[:1].mul_(2)


def to_the_source(x, z):
    z.mul_(2)


def without_gradients(x, z):
    with torch.no_grad():
        x.add_(1)


WRITES = [nothing, before_it, to_the_input, to_the_source, without_gradients]


def giving(source, write):
    def function(x, y):
        if write is before_it:
            write(x, None)
        z = SOURCES[source](y)
        x.data = z
        if write is not before_it:
            write(x, z)
        return x + 1, y * 3

    return function


def left(x, y):
    """All of two tensors that a caller may see: elements, strides, and whether they share memory."""
    apart = (
        (x.data_ptr() - y.data_ptr()) // 4 if x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() else None
    )
    return x, y, x.stride(), y.stride(), apart


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    reset_counters()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("source", "write"), [*product(SOURCES, WRITES)])
def test_as_eager_leaves_them(source, write, dynamic):
    function = giving(source, write)
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    for train in (True, False):
        x, y = torch.randn(4, 4), torch.randn(4, 4)
        ours, eager = (x.clone(), y.clone()), (x.clone(), y.clone())
        with warnings.catch_warnings(), torch.set_grad_enabled(train):
            warnings.simplefilter("ignore", FallbackWarning)
            found, wanted = compiled(*ours), function(*eager)
        torch.testing.assert_close((found, left(*ours)), (wanted, left(*eager)))


def test_what_is_followed_is_compiled():
    for write in (nothing, before_it, without_gradients):
        torch.compile(giving("computed", write), backend="bascule")(torch.randn(4, 4), torch.randn(4, 4))
    assert not bascule.counters()["fallbacks"]
    with pytest.warns(FallbackWarning, match=r"test_given_data.py:\d+: mul_ writes to memory that an input was given"):
        torch.compile(giving("computed", to_the_source), backend="bascule")(torch.randn(4, 4), torch.randn(4, 4))


# Two of one size, in what Dynamo captures first in a process.
FIRST = """
import torch

@torch.compile(backend="bascule", options={"on_error": "raise"}, fullgraph=True)
def longer(a, b, x, y):
    a.data, b.data = x.repeat(2), y.repeat(2)
    return torch.ones((a + 1).shape[0]), torch.ones((b + 1).shape[0])

inputs = [torch.randn(4) for _ in range(4)]
print([*map(len, (*longer(*inputs), *inputs))])
"""


def test_two_of_one_size_in_the_first_capture():
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True)
    assert done.stdout.strip() == "[8, 8, 8, 8, 4, 4]", done.stderr
