"""Attention on the tensor cores of a GPU: what the interpreter's tests ask, and longer rows."""

import pytest
import torch

import bascule
from tests.lowering.triton.kernels import test_attention_training as training
from tests.lowering.triton.kernels import test_descriptors, test_product_chains
from tests.lowering.triton.kernels import test_paged_attention as paged
from tests.lowering.triton.kernels.test_attention import (
    ALIKE,
    CHANGES,
    EPS,
    MASKS,
    SIZES,
    attention,
    causal,
    check,
    heads,
    run,
)
from tests.lowering.triton.kernels.test_contractions import matrices
from tests.lowering.triton.kernels.test_key_parts import SCORES as SCORES_IN_PARTS

NARROW = [(300, 300, 64, 32), (64, 300, 64, 16)]  # columns, where tiles of so few went wrong
LARGE = [(1000, 1000, 64, 64), (513, 2000, 128, 128), (300, 4096, 80, 256)]


def on_gpu(dtype, *sizes):
    return [x.cuda() for x in heads(dtype, *sizes)]


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", SIZES + NARROW + LARGE, ids=str)
def test_sizes(sizes, dtype):
    found, wanted, kernels = run(attention, *on_gpu(dtype, *sizes))
    assert kernels <= 2  # keys go into parts where there are many
    check(found, wanted, dtype)


@pytest.mark.parametrize("name", test_descriptors.ATTENTIONS)
def test_keys_and_values_by_tensor_descriptors(name):
    function, sizes, _ = test_descriptors.ATTENTIONS[name]
    found, wanted, _ = run(function, *[x.cuda() for x in matrices(torch.bfloat16, *sizes)])
    check(found, wanted, torch.bfloat16)


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", NARROW + LARGE, ids=str)
def test_sizes_by_tensor_descriptors(sizes, dtype):
    found, wanted, _ = run(attention, *on_gpu(dtype, *sizes))
    check(found, wanted, dtype)


@pytest.mark.parametrize("name", ["causal", "softcap"])
@pytest.mark.parametrize("dtype", EPS, ids=str)
def test_scores_that_are_changed(name, dtype):
    inputs = on_gpu(dtype, 700, 700, 64, 64)
    found, wanted, kernels = run(lambda q, k, v: attention(q, k, v, CHANGES[name]), *inputs)
    assert kernels <= 2  # a mask may be one of its own
    check(found, wanted, dtype)


@pytest.mark.parametrize("name", [*MASKS, *ALIKE])
@pytest.mark.parametrize("sizes", [(200, 290, 64, 64), (1000, 1500, 128, 128)], ids=str)
def test_masks_by_places(name, sizes):
    """Their keys are skipped, or not: `test_keys_that_no_row_of_a_tile_sees_are_skipped` of the interpreter."""
    change = (MASKS | ALIKE)[name]
    found, wanted, kernels = run(lambda q, k, v: attention(q, k, v, change), *on_gpu(torch.bfloat16, *sizes))
    assert kernels == 1
    check(found, wanted, torch.bfloat16)


def test_rows_without_keys():
    def function(q, k, v, mask):
        return attention(q, k, v, lambda scores: causal(scores).masked_fill(mask, -torch.inf))

    mask = torch.zeros(300, 300, dtype=torch.bool, device="cuda")
    mask[7], mask[9, :200] = True, True
    found, wanted, _ = run(function, *on_gpu(torch.bfloat16, 300, 300, 64, 32), mask)
    assert wanted[..., 7, :].isnan().all()
    check(found, wanted, torch.bfloat16)


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", [*test_product_chains.SIZES, (513, 300, 128, 128), (1000, 1000, 64, 64)], ids=str)
def test_gradients(sizes, dtype):
    found = test_product_chains.inputs(dtype, *sizes, device="cuda")
    results, kernels = test_product_chains.run(test_product_chains.gradients, found, dtype)
    assert kernels == (2 if sizes[2] == sizes[3] else 3)
    test_product_chains.check(results, test_product_chains.gradients(*found), dtype)


def train(function, *inputs):
    found, wanted, kernels = training.run(function, *inputs)
    training.check(found, wanted, inputs[0].dtype)
    return kernels


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("sizes", [(200, 290, 64, 64), (1000, 1000, 128, 128)], ids=str)
def test_training(sizes, dtype):
    assert train(attention, *on_gpu(dtype, *sizes)) == training.FORWARD + training.backward(64, 64)


@pytest.mark.parametrize("sizes", [(200, 288, 64, 64), (1000, 1000, 128, 128)], ids=str)
def test_training_by_tensor_descriptors(sizes):
    assert train(attention, *on_gpu(torch.bfloat16, *sizes)) == training.FORWARD + training.backward(64, 64)


@pytest.mark.parametrize("sizes", [(300, 300, 64, 64), (1000, 1000, 128, 128)], ids=str)
def test_training_with_a_causal_mask(sizes):
    found = on_gpu(torch.bfloat16, *sizes)
    kernels = train(lambda q, k, v: attention(q, k, v, causal), *found)
    assert kernels == training.FORWARD + training.backward(64, 64)


@pytest.mark.parametrize("sizes", [(100, 130, 64, 64), (512, 512, 64, 64)], ids=str)
def test_training_with_a_bias(sizes):
    bias = torch.randn(1, 3, *sizes[:2], device="cuda").bfloat16()
    kernels = train(training.biased, *on_gpu(torch.bfloat16, *sizes), bias)
    assert kernels == training.FORWARD + training.backward(64, 64) + 1


def test_training_with_dropout_from_a_mask():
    kept = torch.rand(2, 3, 300, 200, device="cuda") > 0.25

    def function(q, k, v, kept):
        return (torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) * kept / 0.75) @ v

    assert train(function, *on_gpu(torch.bfloat16, 300, 200, 64, 64), kept) == training.FORWARD + training.backward(
        64, 64
    )


def test_training_with_dropout_that_is_drawn_again():
    training.check_dropout("cuda")


@pytest.mark.parametrize("rows", [1, 5, 20])
def test_pages_are_read_by_one_kernel(rows):
    given = paged.inputs(rows, "cuda")
    found, kernels = paged.run(paged.decode, given, "cuda")
    assert kernels == 1
    check(found, paged.decode(*(x.double() if x.is_floating_point() else x for x in given)), torch.bfloat16)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("page, many", [(16, 512), (64, 128), (128, 64), (24, 341), (7, 1001)])
def test_pages_whose_keys_go_into_parts(page, many, rows):
    """Six programs without parts; of two sequences most parts are hidden from end to end."""
    given = paged.inputs(rows, "cuda", page=page, many=many)
    for lengths in ([page * many, 37, 200], [0, 5000, 2**62]):
        given[4] = torch.tensor(lengths, device="cuda")
        found, kernels = paged.run(paged.decode, given, "cuda")
        assert kernels == 2
        check(found, paged.decode(*(x.double() if x.is_floating_point() else x for x in given)), torch.bfloat16)


def test_pages_whose_number_changes():
    call = paged.compiled(paged.decode, "cuda")
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    for many in (100, 33, 512, 5, 341):
        q, keys, values, table, lengths = paged.inputs(1, "cuda", many=many)
        torch._dynamo.mark_dynamic(table, 1)
        found = call(q, keys, values, table, lengths)
        check(found, paged.decode(q.double(), keys.double(), values.double(), table, lengths), torch.bfloat16)
    assert bascule.counters()["kernels"]["launches"] - before == 2


@pytest.mark.parametrize("name", SCORES_IN_PARTS)
def test_scores_of_keys_in_parts(name):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, 64, generator=generator).bfloat16().cuda() for n in (33, 20000, 20000))
    found, wanted, _ = run(lambda q, k, v: attention(q, k, v, SCORES_IN_PARTS[name]), q, k, v)
    check(found, wanted, torch.bfloat16)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("rows", [1, 4, 32])
def test_flex_attention_over_pages(rows):
    with torch.no_grad():
        function, given, wanted = paged.paged(rows, "cuda")
        found, _ = paged.run(function, given, "cuda")
    check(found, wanted, torch.bfloat16)


@pytest.mark.parametrize("name", ["causal, of a window", "key >= row", "documents"])
def test_tiles_of_two_warp_groups(name):
    """As many rows as these are for."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(48, 1024, 128, generator=generator).bfloat16().cuda() for _ in range(3))
    found, wanted, _ = run(lambda q, k, v: attention(q, k, v, MASKS[name]), q, k, v)
    check(found, wanted, torch.bfloat16)


@pytest.mark.parametrize("number", [-1e10, torch.finfo(torch.bfloat16).min], ids=str)
def test_rows_that_a_large_number_hides(number):
    hidden = torch.zeros(300, 300, dtype=torch.bool, device="cuda")
    hidden[5], hidden[40:45], hidden[:, 3] = True, True, True

    def function(q, k, v, hidden):
        return attention(q, k, v, lambda scores: scores.masked_fill(hidden, number))

    train(function, *on_gpu(torch.bfloat16, 300, 300, 64, 64), hidden)
