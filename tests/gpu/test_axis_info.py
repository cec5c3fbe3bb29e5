"""Masks and addresses made of places, of which Triton's analysis holds too much where they are spelled plainly."""

import pytest
import torch

import bascule

ROWS, KEYS = 300, 40


def masked(shown):
    def function(x):
        rows, keys = torch.arange(x.shape[0], device=x.device)[:, None], torch.arange(x.shape[1], device=x.device)
        return torch.where(shown(rows, keys), x.float(), 0.5).softmax(-1)

    return function


MASKS = {
    "200 - row > key": lambda r, k: 200 - r > k,
    "8 * key < 208 - row": lambda r, k: 8 * k < 208 - r,
    "row + row > key": lambda r, k: r + r > 8 * k,
    "min(row, 144) > 8 key": lambda r, k: r.clamp(max=144) > 8 * k,
    "max(row, 17) > key": lambda r, k: r.clamp(min=17) > k,
    "one or the other": lambda r, k: torch.where(r % 3 == 0, r, r + 128) > 8 * k,
    "row mod 24 mod 16 > key": lambda r, k: r % 24 % 16 > k,
    "-row > key - 64": lambda r, k: -r > k - 64,
}


def check(function, *inputs):
    found = torch.compile(function, backend="bascule", dynamic=False, options={"on_error": "raise"})(*inputs)
    torch.testing.assert_close(found, function(*inputs))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("sizes", [(ROWS, KEYS), (1000, 8), (513, 64)], ids=str)
def test_masks(name, sizes):
    torch._dynamo.reset()
    check(masked(MASKS[name]), torch.randn(sizes, device="cuda"))


def distances(x, table):
    rows, keys = torch.arange(x.shape[0], device=x.device)[:, None], torch.arange(x.shape[1], device=x.device)
    return (x.float() + table[512 - rows + keys].float()).softmax(-1)


def reversed_part(x):
    return (x[:, :128].flip(0).float() * 2).softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_addresses(dtype):
    torch._dynamo.reset()
    check(distances, torch.randn(513, 64, device="cuda", dtype=dtype), torch.randn(1100, device="cuda", dtype=dtype))
    check(reversed_part, torch.randn(129, 130, device="cuda", dtype=dtype))
    assert bascule.counters()["kernels"]["launches"]
