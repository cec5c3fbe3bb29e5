"""Attention with a mask that is the same at every call."""

import pytest
import torch
from bascule.frontend.fx_passes.attention_masks import ATTENTION, simplify_masks
from torch.nn.functional import scaled_dot_product_attention as attention

from tests.frontend.against_eager import check

N, WIDTH = 48, 16
NONE, CAUSAL = (None, False), (None, True)


def rows_and_columns(n=N):
    positions = torch.arange(n) + 0
    return positions[:, None], positions[None, :]


def everything(q, k, v):
    rows, _ = rows_and_columns()
    return attention(q, k, v, attn_mask=(rows >= 0)[None, None].expand(2, -1, N, N))


def causal(q, k, v):
    rows, columns = rows_and_columns()
    return attention(q, k, v, (columns <= rows).expand(2, 1, N, N))


def triangle(q, k, v):
    return attention(q, k, v, torch.ones(N, N, dtype=torch.bool).tril(), scale=0.3)


def packed(q, k, v):
    """Sequences told apart by where positions begin again, which they do not here."""
    positions = torch.arange(N).unsqueeze(0).expand(2, -1)
    sequence = (torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    batch = torch.arange(2)[:, None, None, None]
    rows, columns = (torch.arange(N)[None, None, :, None], torch.arange(N)[None, None, None, :])
    mask = rows.new_ones((), dtype=torch.bool) & (columns <= rows).to(q.device)
    return attention(q, k, v, mask & (sequence[batch, rows] == sequence[batch, columns]))


def minus_infinity(q, k, v):
    return attention(q, k, v, torch.full((N, N), float("-inf")).triu(1))


def least_number(q, k, v):
    rows, columns = rows_and_columns()
    zeros = torch.zeros(1, 3, N, N)
    return attention(q, k, v, torch.where((columns <= rows)[None, None], zeros, torch.finfo(torch.float32).min))


def window(q, k, v):
    rows, columns = rows_and_columns()
    return attention(q, k, v, (columns <= rows) & (columns > rows - 8))


def later(q, k, v):
    """Each query sees its own key and those after it."""
    rows, columns = rows_and_columns()
    return attention(q, k, v, columns >= rows)


def shorter(q, k, v):
    """The first queries alone: no square."""
    rows, columns = rows_and_columns()
    return attention(q[:, :, :32], k, v, (columns <= rows)[:32])


def written(q, k, v):
    mask = torch.zeros(N, N)
    mask[:, 40:].fill_(-2.0)
    return attention(q, k, v, mask)


def written_under_another_name(q, k, v):
    mask = torch.ones(N, N, dtype=torch.bool)
    part = mask.view(2, 24, N)
    part &= torch.arange(N) < 40
    return attention(q, k, v, mask)


def half_hidden(q, k, v):
    """Scores as large as those that are shown."""
    rows, columns = rows_and_columns()
    return attention(q, k, v, torch.where(columns <= rows, 0.0, -2.0))


SIMPLE = {
    everything: NONE,
    causal: CAUSAL,
    triangle: CAUSAL,
    packed: CAUSAL,
    minus_infinity: CAUSAL,
    least_number: CAUSAL,
}
OTHERS = (window, later, shorter, written, written_under_another_name, half_hidden)


def inputs(grad=True):
    torch.manual_seed(0)
    return [torch.randn(2, 3, N, WIDTH, requires_grad=grad) for _ in range(3)]


def masks(function, *args, dynamic=False):
    """`attn_mask` and `is_causal` of the attention in Dynamo's graph of `function`, once its mask has been looked at."""
    found = []

    def backend(gm, _):
        simplify_masks(gm)
        gm.graph.lint()
        (node,) = (node for node in gm.graph.nodes if node.target in ATTENTION)
        given = dict(zip(("query", "key", "value", "attn_mask"), node.args)) | node.kwargs
        found.append((given["attn_mask"], given.get("is_causal", False)))
        return gm

    torch._dynamo.reset()
    result = torch.compile(function, backend=backend, dynamic=dynamic)(*args)
    torch.testing.assert_close(result, function(*args))
    return found[0]


@pytest.mark.parametrize("function", SIMPLE, ids=lambda f: f.__name__)
def test_constant_masks_are_not_read(function):
    assert masks(function, *inputs()) == SIMPLE[function]


@pytest.mark.parametrize("function", OTHERS, ids=lambda f: f.__name__)
def test_other_masks_stay(function):
    mask, is_causal = masks(function, *inputs())
    assert mask is not None and not is_causal


def test_a_mask_that_is_given_stays():
    given = torch.ones(N, N, dtype=torch.bool)
    mask, _ = masks(lambda q, k, v, mask: attention(q, k, v, mask), *inputs(), given)
    assert mask is not None


def test_what_else_reads_the_mask_still_does():
    def function(q, k, v):
        mask = torch.ones(N, N, dtype=torch.bool).tril()
        return attention(q, k, v, mask) * mask.sum()

    assert masks(function, *inputs()) == CAUSAL


def test_sizes_that_vary():
    def function(q, k, v):
        rows, columns = rows_and_columns(q.shape[-2])
        return attention(q, k, v, columns <= rows)

    mask, _ = masks(function, *inputs(), dynamic=True)
    assert mask is not None


def test_beside_tensors_without_memory():
    """Of the function of scores that `flex_attention` maps over all of them."""
    from torch.nn.attention.flex_attention import flex_attention

    def function(q, k, v):
        x = causal(q, k, v)
        return flex_attention(x, k, v, score_mod=lambda score, b, h, i, j: score + (i - j))

    mask, is_causal = masks(function, *inputs(grad=False))
    assert (mask is None) == is_causal


@pytest.mark.parametrize("function", [*SIMPLE, *OTHERS], ids=lambda f: f.__name__)
def test_compiled(function):
    check(function, inputs(), rtol=1e-4, atol=1e-5)
