"""Graphs with symbols: one compiled graph serves many sizes, however the sizes are computed."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.frontend.against_eager import check, cut_at, leaf


def padded(x, y):
    """To the larger of two sizes."""
    return F.pad(x, (0, max(0, y.shape[0] - x.shape[0]))) + 1, torch.zeros(max(x.shape[0], y.shape[0])) + 1


def windows(x):
    return x.unfold(0, 3, 2).sum(-1), x.unfold(0, 4, 1) * 2


def every_third(x, y):
    """Two sizes that are equal by a guard and computed differently."""
    z = x.clone()
    z[::3] = y
    return z + 1


def two(*pairs):
    return [[leaf(m), torch.randn(n)] for m, n in pairs]


torch.manual_seed(0)
# name -> function, argument lists that one graph serves
FUNCTIONS = {
    "max": (padded, two((5, 9), (4, 30), (6, 7))),
    "min": (lambda x, y: x[: min(y.shape[0], x.shape[0] // 2)] * 2, two((8, 3), (9, 30), (40, 6))),
    "unfold": (windows, [[leaf(n)] for n in (11, 12, 40)]),
    "chunk": (lambda x: [c * 2 for c in x.chunk(3)], [[leaf(n, 2)] for n in (11, 14, 17)]),
    "a quotient that a guard fixes at one": (
        lambda x, y: (x[: x.shape[0] // 2] + y, torch.where(y > 0, x[: x.shape[0] // 2], y)),
        two((3, 5), (2, 9), (3, 7)),
    ),
    "equal sizes, computed differently": (every_third, two((11, 4), (8, 3), (30, 10))),
    "quotients": (
        lambda x, y: torch.zeros(x.shape[0] % y.shape[0] + 1) + x.shape[0] // y.shape[0],
        two((11, 4), (13, 5), (30, 7)),
    ),
    "powers": (lambda x, y: torch.zeros(x.shape[0] ** 2 % 5 + 1) + y.sum() * x.shape[0] ** -0.5, two((11, 4), (6, 9))),
    "a condition": (lambda x, y: torch.full((3,), x.shape[0] > y.shape[0] + 5) & (y.sum() > -99), two((11, 4), (6, 9))),
    "nearest": (
        lambda x: F.interpolate(x, scale_factor=1.7, mode="nearest"),
        [[leaf(1, 2, h, w)] for h, w in ((5, 6), (9, 4), (20, 21))],
    ),
    "bilinear": (
        lambda x: F.interpolate(x, scale_factor=0.6, mode="bilinear"),
        [[leaf(1, 2, h, w)] for h, w in ((5, 6), (9, 4), (20, 21))],
    ),
    "adaptive pooling": (lambda x: F.adaptive_avg_pool1d(x, 3), [[leaf(2, 3, n)] for n in (7, 9, 12)]),
    "top k": (lambda x: torch.topk(x, min(4, x.shape[-1] - 1))[0] * 2, [[leaf(3, n)] for n in (9, 12)]),
    "a product with rows behind it, longer than what it is made from": (
        lambda x, w: F.pad(x @ w, (0, 0, 0, x.shape[0] + 1)) * 2,
        [[leaf(n, 3), leaf(3, 4)] for n in (5, 9)],
    ),
    "a size less one": (lambda x: (x * (x.shape[0] - 1), torch.ones(x.shape[0] - 1)), [[leaf(n)] for n in (4, 9)]),
    "softmax": (lambda x: x.softmax(-1) @ x.transpose(0, 1), [[leaf(m, n)] for m, n in ((3, 5), (7, 65), (33, 2))]),
    "a float": (lambda x, a: x * a + a * 2, [[leaf(5), 1.5], [leaf(7), -2.25]]),
    "a negative divisor": (
        lambda x, k: torch.arange(60, -60, k) + x[0],
        [[leaf(n), -k] for n, k in ((4, 3), (30, 7), (9, 20))],
    ),
    "a number that a guard knows to be negative": (  # its negative is a symbol by itself
        lambda x, k: torch.full_like(x, -k) * x if k < 0 else x,
        [[leaf(n), k] for n, k in ((9, -100), (30, -7))],
    ),
    "numbers from quotients": (
        lambda x, k: (
            x[: round(k / 2 + 1)] * 2,
            x * math.cos(k) + math.log2(x.shape[0]),
            x + (k - 3) / 2 + 2.0 ** (k - 4),
        ),
        [[leaf(n), k] for n, k in ((9, 3), (30, 8), (12, 5))],
    ),
    "a number that the forward computes for the backward": (
        lambda x, k: x * round(k / 2) * (k // 3),
        [[leaf(n), k] for n, k in ((9, 3), (30, 8), (12, 5))],
    ),
    "the last row is padding": (
        lambda w, i: F.embedding(i, w, padding_idx=-1),
        [[leaf(n, 3), torch.tensor([[0, n - 1, 2], [n - 1, 1, 1]])] for n in (5, 9)],
    ),
    "numbers": (
        lambda x, k: (torch.tril(x, k), x.roll(k, 0), x + k, (x * k).sum() + abs(k), torch.arange(k, k + 5)),
        [[leaf(5, n), k] for n, k in ((4, 3), (3, -2), (7, 9), (4, -30))],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name):
    function, calls = FUNCTIONS[name]
    records = check(function, *calls, dynamic=True, rtol=1e-5, atol=1e-5)
    assert not cut_at(records)
    assert len({record.name.rpartition("_")[2] for record in records}) == len(records), "compiled once"


def places(x, n):
    """Reads and writes at `n`, which may count from the end."""
    y = x.clone()
    y[n:] = 1
    y[: n - 2] = 5
    y[n - 1] = 7
    return (
        y,
        x[n] * 2,
        x[n:].exp(),
        x.narrow(0, n, 2),
        torch.select_scatter(x, x.sum(), 0, n),
        torch.slice_scatter(x, x[:2], 0, n, n + 2),
    )


@pytest.mark.parametrize("positions", [(-4, -5, -7), (4, 5, 6)])
def test_positions_that_count_from_the_end(positions):
    check(places, *([leaf(n), k] for n, k in zip((9, 12, 40), positions)), dynamic=True, graphs=1)


def test_what_python_rounds_to_digits_is_added_between_parts():
    calls = [[leaf(n), k] for n, k in ((9, 3), (30, 8), (12, 5))]
    records = check(lambda x, k: (x * 2 + round(k / 7 * 123.4567, 1)) * round(k / 2), *calls, dynamic=True)
    assert cut_at(records)


def block(x, w, v):
    """A norm, a product, a gate, a mean over rows."""
    y = F.layer_norm(x, x.shape[-1:]) @ w
    return (F.gelu(y) * torch.sigmoid(v)).mean(0), F.cross_entropy(y, torch.arange(x.shape[0]) % 4)


@pytest.mark.parametrize("rows", [1, 2, 17])
def test_a_size_that_dynamo_marks(rows):
    def arguments(n):
        x = torch.randn(n, 6)
        torch._dynamo.mark_dynamic(x, 0) if n > 1 else None
        return [x.requires_grad_(), leaf(6, 4), leaf(4)]

    check(block, arguments(rows), arguments(rows + 3), rtol=1e-4, atol=1e-5)


def test_sizes_zero_and_one_where_the_size_was_not_specialised():
    """A size that a tensor's elements decide may be 0 or 1 in the same graph."""

    def function(x):
        y = x[x[:, 0] > 0]
        return y.softmax(-1).sum(0), y.amax(-1), y * 2, torch.cat([y, x]).sum(0)

    rows = [torch.randn(6, 3) - 9, torch.randn(6, 3) + 9, torch.cat([torch.ones(1, 3), -torch.ones(5, 3)])]
    check(function, *([x.requires_grad_()] for x in rows), graphs=1)


def test_a_graph_that_only_checks_a_size():
    def function(x):
        torch._check(x.shape[0] >= 10)
        return 3

    call = torch.compile(function, backend="bascule", fullgraph=True, options={"on_error": "raise"})
    x = torch.zeros(12)
    torch._dynamo.mark_dynamic(x, 0)
    assert call(x) == 3
    assert call(torch.zeros(20)) == 3
    with pytest.raises(RuntimeError):
        call(torch.zeros(4))
