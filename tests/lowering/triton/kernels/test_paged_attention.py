"""Attention over a cache in pages, in the interpreter: keys and values are read through the table of pages, in one kernel."""

from pathlib import Path

import pytest
import torch
from bascule.lowering.triton.kernels import loops
from bascule.lowering.triton.kernels.walked_keys import walked_keys
from torch.nn.attention.experimental._paged_attention import PagedAttention
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import bascule
from tests.lowering.triton.kernels.key_parts import in_parts_of
from tests.lowering.triton.kernels.test_attention import check

BATCH, HEADS, FEW, DEEP, PAGE, MANY, PAGES = 3, 8, 2, 64, 16, 24, 50
KEYS = MANY * PAGE


def decode(q, keys, values, table, lengths):
    """`q`: batch x heads x rows x deep; of `keys` and `values` those of a sequence are the pages `table` of it, as far as `lengths` says."""
    rows, count = q.shape[2], table.shape[1] * keys.shape[1]
    k = keys[table].reshape(BATCH, count, FEW, DEEP).transpose(1, 2)
    v = values[table].reshape(BATCH, count, FEW, DEEP).transpose(1, 2)
    grouped = q.reshape(BATCH, FEW, HEADS // FEW * rows, DEEP)
    scores = (grouped @ k.transpose(-1, -2)).float() * DEEP**-0.5
    hidden = torch.arange(count, device=q.device) >= lengths[:, None, None, None]
    return (torch.softmax(scores.masked_fill(hidden, -torch.inf), -1).to(q.dtype) @ v).reshape(q.shape)


def inputs(rows, device="cpu", page=PAGE, many=MANY):
    """The second half of the pages is in no table, and no numbers."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(BATCH, HEADS, rows, DEEP, generator=generator).bfloat16()
    cache = [torch.randn(2 * PAGES, page, FEW, DEEP, generator=generator).bfloat16() for _ in range(2)]
    for each in cache:
        each[PAGES:] = torch.nan
    table = torch.randint(0, PAGES, (BATCH, many), generator=generator)
    table[0, 3] -= 2 * PAGES  # from the end
    return [x.to(device) for x in (q, *cache, table, torch.tensor([KEYS, 37, 200]))]


def compiled(function, device):
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret" if device == "cpu" else "auto"}
    return torch.compile(function, backend="bascule", options=options, dynamic=False)


def run(function, given, device="cpu"):
    """The result, and how many kernels ran."""
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    found = compiled(function, device)(*given)
    return found, bascule.counters()["kernels"]["launches"] - before


@pytest.mark.parametrize("rows", [1, 2, 5, 20])
def test_pages_are_read_by_one_kernel(rows):
    given = inputs(rows)
    found, kernels = run(decode, given)
    assert kernels == 1
    check(found, decode(*(x.double() if x.is_floating_point() else x for x in given)), torch.bfloat16)


@pytest.mark.parametrize("page", [2 * PAGES, -2 * PAGES - 1])
def test_a_page_outside_of_the_cache(page):
    """The error names the line that reads the table."""
    *given, table, lengths = inputs(1)
    table[1, 1] = page
    lines = Path(__file__).read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "k = keys[table]" in text)
    with pytest.raises(Exception, match=rf"test_paged_attention.py:{line}\b.*out of bounds for a dimension of 100"):
        compiled(decode, "cpu")(*given, table, lengths)


LENGTHS = {
    "in 32 bits": lambda key, row, n: key >= n.int(),
    "at most": lambda key, row, n: key > n,
    "a cache before the rows": lambda key, row, n: key > row + n,
    "the last": lambda key, row, n: (key >= n) | (key < n - 100),
    "doubled": lambda key, row, n: key >= 2 * n,  # which may overflow: walked whole
    "of rows": lambda key, row, n: key >= n,  # each has its own: the same
}


@pytest.mark.parametrize("name", LENGTHS)
def test_keys_beyond_a_length_are_not_walked(name, monkeypatch):
    """A length of none gives rows of NaN, as in eager; one of anything all keys."""
    ends = []
    monkeypatch.setattr(loops, "walked_keys", lambda *args: ends.append(walked_keys(*args)) or ends[-1])
    q, k, v = (torch.randn(5, 4, n, 32, generator=torch.Generator().manual_seed(n)).bfloat16() for n in (30, 300, 300))
    lengths = torch.tensor([40, 0, -(2**62), 2**62, 111])[:, None, None, None].expand(5, 1, 30, 1)

    def function(q, k, v, n):
        row, key = torch.arange(30)[:, None], torch.arange(300)
        hidden = LENGTHS[name](key, row, n if name == "of rows" else n[:, :, :1])
        return torch.softmax((q @ k.transpose(-1, -2)).masked_fill(hidden, -torch.inf), -1) @ v

    found, kernels = run(function, [q, k, v, lengths])
    assert kernels <= 2 and bool(ends) == (name not in ("doubled", "of rows"))
    check(found, function(q.double(), k.double(), v.double(), lengths), torch.bfloat16)


def paged(rows, device="cpu"):
    """`flex_attention` over physical pages, and what it takes; the same over the keys of each sequence."""
    batch, keys, page = 2, 256, 64
    pages = PagedAttention(12, page, batch, device=device)
    cache = [torch.zeros(1, FEW, 12 * page, DEEP, device=device).bfloat16() for _ in range(2)]
    generator = torch.Generator().manual_seed(0)
    k, v = (torch.randn(batch, FEW, keys, DEEP, generator=generator).bfloat16().to(device) for _ in range(2))
    for number in (1, 0):
        pages.reserve(torch.tensor(number, device=device), torch.tensor(keys, device=device))
    everywhere = torch.arange(keys, device=device).expand(batch, keys)
    pages.assign(torch.arange(batch, device=device), everywhere, k, v, *cache)
    lengths = torch.tensor([200, 130], device=device)
    mask = create_block_mask(
        lambda b, h, i, j: j < lengths[b], batch, None, rows, keys, device=device, BLOCK_SIZE=(rows, page)
    )
    q = torch.randn(batch, HEADS, rows, DEEP, generator=generator).bfloat16().to(device)
    physical, score = pages.convert_logical_block_mask(mask), pages.get_score_mod(None)

    def function(q, keys, values):
        return flex_attention(q, keys, values, block_mask=physical, score_mod=score, enable_gqa=True)

    wanted = flex_attention(q.double(), k.double(), v.double(), block_mask=mask, enable_gqa=True)
    return function, (q, *cache), wanted


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("rows, size, most", [(1, 192, 3), (4, 200, 3), (32, None, 2)])
def test_flex_attention_over_pages(rows, size, most, monkeypatch):
    """All sequences read one cache. A kernel or two compute the mask of physical places."""
    in_parts_of(monkeypatch, size)
    with torch.no_grad():
        function, given, wanted = paged(rows)
        found, kernels = run(function, given)
    assert kernels <= most
    check(found, wanted, torch.bfloat16)
