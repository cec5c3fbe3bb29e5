"""Gradients of `embedding_bag`, against eager."""

import pytest
import torch
import torch.nn.functional as F

from tests.frontend.against_eager import check, leaf

MODES = ["sum", "mean", "max"]
ROWS, COLUMNS, SAMPLES = 20, 8, 30
OFFSETS = [0, 5, 5, 12, 29]  # the second bag is empty


def indices(dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, ROWS, (SAMPLES,)).to(dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_bags(mode, dtype):
    def function(table, samples, offsets):
        return F.embedding_bag(samples, table, offsets, mode=mode).sin()

    offsets = torch.tensor(OFFSETS, dtype=dtype)
    _, backward = check(function, [leaf(ROWS, COLUMNS), indices(dtype), offsets], rtol=1e-5, atol=1e-6)
    assert not backward.summary.aten, "the gradient is a kernel of ours"


@pytest.mark.parametrize("mode, weighted", [("sum", False), ("sum", True), ("mean", False), ("max", False)])
def test_bfloat16(mode, weighted):
    """Of which ATen's forward leaves fewer results than its shape function promises."""
    table = leaf(ROWS, COLUMNS).to(torch.bfloat16).detach().requires_grad_()
    weights = torch.randn(SAMPLES).to(torch.bfloat16) if weighted else None

    def function(table, samples, offsets):
        return F.embedding_bag(samples, table, offsets, mode=mode, per_sample_weights=weights)

    check(function, [table, indices(), torch.tensor(OFFSETS)], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("mode", MODES)
def test_a_last_offset_and_padding(mode):
    samples, offsets = indices(), torch.tensor([*OFFSETS, SAMPLES])
    padding = int(samples[3])
    samples[5:12] = padding  # a bag of nothing else

    def function(table, samples, offsets):
        more = {"include_last_offset": True, "padding_idx": padding}
        return F.embedding_bag(samples, table, offsets, mode=mode, **more).sin()

    check(function, [leaf(ROWS, COLUMNS), samples, offsets], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", [None, 7])
def test_weights_of_samples(padding):
    def function(table, weights, samples, offsets):
        given = {"per_sample_weights": weights, "mode": "sum", "padding_idx": padding}
        return F.embedding_bag(samples, table, offsets, **given).sin()

    arguments = [leaf(ROWS, COLUMNS), leaf(SAMPLES), indices(), torch.tensor(OFFSETS)]
    _, backward = check(function, arguments, rtol=1e-5, atol=1e-6)
    assert not backward.summary.aten


def test_rows_of_samples_and_sizes_that_vary():
    def function(table, samples):
        return F.embedding_bag(samples, table, mode="mean").sin()

    calls = [[leaf(ROWS, COLUMNS), torch.randint(0, ROWS, sizes)] for sizes in ((6, 5), (4, 9))]
    check(function, *calls, dynamic=True, rtol=1e-5, atol=1e-6)


def test_what_goes_to_aten():
    def function(table, samples, offsets):
        return F.embedding_bag(samples, table, offsets, scale_grad_by_freq=True, mode="sum").sin()

    _, backward = check(function, [leaf(ROWS, COLUMNS), indices(), torch.tensor(OFFSETS)], rtol=1e-5, atol=1e-6)
    assert any("frequency" in call.reason for call in backward.summary.aten)
