"""Attentions whose keys go into parts, in the interpreter, against f64: which keys a part has, what of them is hidden, what comes of it."""

from pathlib import Path

import pytest
import torch
from bascule.frontend.graph_split import listed_keys
from bascule.lowering.triton.kernels import loops
from bascule.lowering.triton.kernels.walked_keys import walked_keys
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import bascule
from tests.lowering.triton.kernels import test_paged_attention as paged
from tests.lowering.triton.kernels.key_parts import in_parts_of
from tests.lowering.triton.kernels.test_attention import attention, check, run

PARTS = [(64, 64), (192, 64), (128, 0), (200, 0), (256, 64), (100, 0)]  # keys of a part, and in turns


def wide(function, given):
    return function(*(x.double() if x.is_floating_point() else x for x in given))


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("size, turn", PARTS)
def test_pages(size, turn, rows, monkeypatch):
    """384 keys, of which sequences have all, 37 and 200: some parts are hidden from end to end."""
    in_parts_of(monkeypatch, size, turn)
    given = paged.inputs(rows)
    found, kernels = paged.run(paged.decode, given)
    assert kernels == 2
    check(found, wide(paged.decode, given), torch.bfloat16)


@pytest.mark.parametrize("turn", [0, 64])
@pytest.mark.parametrize("page, many", [(16, 25), (64, 5), (128, 4), (24, 17), (7, 53), (1, 300)])
def test_sizes_of_pages(page, many, turn, monkeypatch):
    in_parts_of(monkeypatch, 128, turn)
    given = paged.inputs(1, page=page, many=many)
    found, kernels = paged.run(paged.decode, given)
    assert kernels == 2
    check(found, wide(paged.decode, given), torch.bfloat16)


@pytest.mark.parametrize("turn", [0, 64])
def test_lengths(turn, monkeypatch):
    """Rows without keys are NaN, as in eager; a length beyond the keys, of any size, hides none."""
    in_parts_of(monkeypatch, 128, turn)
    *given, lengths = paged.inputs(1)
    for numbers in ([0, 1, 128], [129, -5, 2**62], [-(2**62), 64, 383]):
        lengths = torch.tensor(numbers)
        found, _ = paged.run(paged.decode, [*given, lengths])
        wanted = wide(paged.decode, [*given, lengths])
        assert wanted.isnan().any() == (min(numbers) <= 0)
        check(found, wanted, torch.bfloat16)


@pytest.mark.parametrize("page", [2 * paged.PAGES, -2 * paged.PAGES - 1])
def test_a_page_outside_of_the_cache(page, monkeypatch):
    """The error names the line that reads the table, if some key of the page is walked."""
    in_parts_of(monkeypatch, 192, 64)
    *given, table, lengths = paged.inputs(1)
    hidden = table.clone()
    hidden[1, 20] = page
    paged.run(paged.decode, [*given, hidden, lengths])
    table[2, 11] = page
    lines = Path(paged.__file__).read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "k = keys[table]" in text)
    with pytest.raises(Exception, match=rf"test_paged_attention.py:{line}\b.*out of bounds for a dimension of 100"):
        paged.compiled(paged.decode, "cpu")(*given, table, lengths)


def test_keys_whose_number_changes():
    """One kernel for all: parts have 512 keys."""
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret"}
    call = torch.compile(paged.decode, backend="bascule", options=options, dynamic=False)
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    for many in (40, 33, 64, 5, 100):
        q, keys, values, table, lengths = paged.inputs(1, many=many)
        torch._dynamo.mark_dynamic(table, 1)
        given = q, keys, values, table, lengths
        check(call(*given), wide(paged.decode, given), torch.bfloat16)
    assert bascule.counters()["kernels"]["launches"] - before == 2


SCORES = {
    "as they are": lambda s: s,
    "a finite number hides all keys of a row": lambda s: s.masked_fill(
        torch.arange(s.shape[-2], device=s.device)[:, None] % 3 == 0, -1e30
    ),
    "infinity": lambda s: s.masked_fill(torch.arange(s.shape[-1], device=s.device) == 130, torch.inf),
    "no number": lambda s: s.masked_fill(torch.arange(s.shape[-1], device=s.device) == 250, torch.nan),
    "hidden in memory": lambda s: s.masked_fill(
        torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril(150).logical_not(), -torch.inf
    ),
    "causal": lambda s: s.masked_fill(
        torch.arange(s.shape[-1], device=s.device) > 8 * torch.arange(s.shape[-2], device=s.device)[:, None], -torch.inf
    ),
    "by batch and head": lambda s: s * torch.tensor([[[[0.5]]], [[[2.0]]]]).to(s),
}


@pytest.mark.parametrize("size", [128, 96])
@pytest.mark.parametrize("name", SCORES)
def test_many_rows(name, size, monkeypatch):
    """Not only of few rows, nor of pages."""
    in_parts_of(monkeypatch, size)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, 32, generator=generator).bfloat16() for n in (33, 300, 300))
    found, wanted, kernels = run(lambda q, k, v: attention(q, k, v, SCORES[name]), q, k, v)
    assert kernels <= 3
    check(found, wanted, torch.bfloat16)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("size, turn", [(128, 64), (150, 0)])
def test_flex_attention_with_its_logarithm(size, turn, monkeypatch):
    """Of rows without keys too."""
    in_parts_of(monkeypatch, size, turn)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, h, n, 32, generator=generator).bfloat16() for h, n in ((8, 3), (2, 400), (2, 400)))
    blocks = create_block_mask(
        lambda b, h, i, j: (j > 140 + i) & (j < 300) & (i != 1), None, None, 3, 400, device="cpu"
    )

    def function(q, k, v):
        return flex_attention(q, k, v, block_mask=blocks, enable_gqa=True, return_lse=True)

    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret"}
    found = torch.compile(function, backend="bascule", options=options, dynamic=False)(q, k, v)
    wanted = function(q.double(), k.double(), v.double())
    check(found[0], wanted[0], torch.bfloat16)
    assert torch.allclose(found[1].double(), wanted[1], rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("size", [None, 128, 150])
def test_captured_lengths_bound_the_walk(size, monkeypatch):
    in_parts_of(monkeypatch, size)
    ends = []
    monkeypatch.setattr(loops, "walked_keys", lambda *args: ends.append(walked_keys(*args)) or ends[-1])
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(3, h, n, 32, generator=generator).bfloat16() for h, n in ((8, 2), (2, 400), (2, 400)))
    lengths = torch.tensor([400, 30, 0])
    blocks = create_block_mask(lambda b, h, i, j: j < lengths[b] + i, 3, None, 2, 400, device="cpu")

    def function(q, k, v):
        return flex_attention(q, k, v, block_mask=blocks, enable_gqa=True)

    found, kernels = paged.run(function, [q, k, v])
    assert len(ends) == 1 and kernels <= 2
    check(found, function(q.double(), k.double(), v.double()), torch.bfloat16)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("size", [None, 192])
@pytest.mark.parametrize("rows", [1, 4])
def test_tables_of_a_block_mask_are_read(rows, size, monkeypatch):
    """A sequence's own pages alone are walked, however many are in the cache."""
    in_parts_of(monkeypatch, size, 64)
    reads = listed_keys.reads_alike
    monkeypatch.setattr(listed_keys, "_takes", lambda query, key, value: reads(query, key))
    with torch.no_grad():
        function, given, wanted = paged.paged(rows)
        found, kernels = paged.run(function, given)
    assert kernels <= 4
    check(found, wanted, torch.bfloat16)


def test_training_keeps_what_the_backward_needs(monkeypatch):
    """Maxima and sums of rows come of the parts."""
    in_parts_of(monkeypatch, 128)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, n, 32, generator=generator).bfloat16() for n in (40, 300, 300))

    def train(function, q, k, v):
        given = [x.detach().requires_grad_() for x in (q, k, v)]
        out = function(*given)
        return [out.detach(), *torch.autograd.grad(out.sin().sum(), given)]

    torch._dynamo.reset()
    options = {"on_error": "raise", "target": "interpret"}
    found = train(torch.compile(attention, backend="bascule", options=options, dynamic=False), q, k, v)
    for one, other in zip(found, train(attention, q.double(), k.double(), v.double())):
        assert (one.double() - other).abs().max() <= 0.05 * (1 + other.abs().max())
