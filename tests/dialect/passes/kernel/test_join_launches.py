"""Small kernels that do not depend on each other are one launch, and compute what they did apart."""

import torch

import bascule

OPTIONS = {"target": "interpret", "on_error": "raise", "cache": False}


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def attention(x, wq, wk, wv, cos, sin):
    """One token: the queries and keys are rotated, keys and values repeated."""
    q, k, v = (torch.mm(x, w) for w in (wq, wk, wv))
    q = rotate(q.view(1, 4, 1, 16).float(), cos, sin).bfloat16()
    k = rotate(k.view(1, 2, 1, 16).float(), cos, sin).bfloat16()
    k, v = (y[:, :, None].expand(1, 2, 2, 1, 16).reshape(1, 4, 1, 16) for y in (k, v.view(1, 2, 1, 16)))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def inputs():
    sizes = ((1, 32), (32, 64), (32, 32), (32, 32))
    return [torch.randn(*size).bfloat16() for size in sizes] + [torch.randn(1, 1, 1, 16), torch.randn(1, 1, 1, 16)]


def launches(function, *given):
    (graph,) = bascule.explain(function, *given, options=OPTIONS).graphs
    return [line for line in graph.wrapper.splitlines() if line.startswith('    ("')]


def test_what_stands_between_products_and_attention_is_one_launch():
    given = inputs()
    compiled = torch.compile(attention, backend="bascule", options=OPTIONS)
    torch.testing.assert_close(compiled(*given), attention(*given), rtol=2e-2, atol=2e-2)
    joined = [line for line in launches(attention, *given) if "_and_" in line]
    assert len(joined) == 1 and "_and_2" in joined[0]


def test_what_needs_another_result_stays_behind():
    def function(x, y):
        z = torch.sort(x.exp() * 2).values
        return z, y.cos().t().contiguous(), z.sum()

    given = torch.randn(40), torch.randn(8, 6)
    compiled = torch.compile(function, backend="bascule", options=OPTIONS)
    for mine, theirs in zip(compiled(*given), function(*given), strict=True):
        torch.testing.assert_close(mine, theirs)
