"""Grouped products on the tensor cores of a GPU: what the interpreter's tests ask, of larger matrices and more groups too."""

import subprocess
import sys

import pytest
import torch

from tests.lowering.triton.kernels.test_contractions import matrices
from tests.lowering.triton.kernels.test_grouped_products import (
    ENDS,
    FUSED,
    PIPELINE,
    SUMS,
    check,
    experts,
    offsets,
    product,
    run,
    sums,
    trained,
)


def on_gpu(*sizes):
    return [x.cuda() for x in matrices(torch.bfloat16, *sizes)]


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_groups(ends):
    x, w = on_gpu((80, 40), (len(ends), 40, 56))
    check(*run(product, x, w, offsets(*ends).cuda()), torch.bfloat16, 40)


@pytest.mark.parametrize("sizes", [(2048, 512, 1792, 8), (3000, 136, 264, 64), (1000, 1024, 128, 130)], ids=str)
def test_sizes(sizes):
    rows, summed, columns, groups = sizes
    x, w = on_gpu((rows, summed), (groups, columns, summed))
    ends = torch.randint(0, rows + 1, (groups,), generator=torch.Generator().manual_seed(0)).sort()[0].int().cuda()
    check(*run(lambda x, w, o: product(x, w.transpose(1, 2), o), x, w, ends), torch.bfloat16, summed)


@pytest.mark.parametrize("name", FUSED)
def test_what_is_fused(name):
    x, w, v, b, s = on_gpu((96, 72), (4, 72, 64), (4, 72, 64), (4, 64), (96,))
    groups = torch.tensor([0] * 10 + [2] * 60 + [3] * 26).cuda()
    found, wanted = run(FUSED[name], x, w, v, b, s, offsets(10, 10, 70, 96).cuda(), groups)
    check(found, wanted, torch.bfloat16, 72, scale=64)


def test_numbers_of_other_groups_stay_out():
    x, w = on_gpu((300, 72), (3, 72, 136))
    x[100:150], w[1] = float("nan"), float("inf")
    found, wanted = run(product, x, w, offsets(100, 150, 300).cuda())
    assert torch.equal(found.isnan(), wanted.isnan())
    assert found[100:150].isnan().all() and not found[:100].isnan().any() and not found[150:].isnan().any()


def test_calls_with_other_offsets():
    """A compiled product is called with other ends, and other tensors, than it was compiled with."""
    compiled = torch.compile(product, backend="bascule", options={"pipeline": PIPELINE})
    for number in range(6):
        x, w = on_gpu((400, 64), (4, 64, 128))
        ends = offsets(0, 10 * number, 60 * number, 400).cuda()
        wanted = product(x.double(), w.double(), ends)
        check(compiled(x, w, ends), wanted, torch.bfloat16, 64)


@pytest.mark.parametrize("ends", SUMS.values(), ids=SUMS)
def test_sums_in_groups(ends):
    x, y = on_gpu((300, 40), (300, 56))
    check(*run(sums, x, y, offsets(*ends).cuda()), torch.bfloat16, 300)


@pytest.mark.parametrize("sizes", [(512, 4096, 1792, 8), (136, 3000, 264, 30)], ids=str)
def test_sizes_of_sums(sizes):
    rows, summed, columns, groups = sizes
    x, y = on_gpu((summed, rows), (summed, columns))
    x[summed // 2], y[summed // 3] = float("nan"), float("inf")
    ends = torch.randint(0, summed + 1, (groups,), generator=torch.Generator().manual_seed(1)).sort()[0].int().cuda()
    found, wanted = run(sums, x, y, ends)
    assert torch.equal(found.isfinite(), wanted.isfinite())
    check(found.nan_to_num(0, 0, 0), wanted.nan_to_num(0, 0, 0), torch.bfloat16, summed)


def test_training():
    torch._dynamo.reset()
    inputs = *on_gpu((960, 64), (3, 2 * 48, 64), (3, 64, 48)), offsets(100, 101, 960).cuda()
    found = trained(torch.compile(experts, backend="bascule", options={"pipeline": PIPELINE}), *inputs)
    exact = trained(experts, *(x.double() if x.is_floating_point() else x for x in inputs))
    eager = trained(experts, *inputs)
    for one, other, wanted in zip(found, eager, exact):
        error, eagers = (one.double() - wanted).abs(), (other.double() - wanted).abs()
        assert error.mean() <= 1.1 * eagers.mean() and error.max() <= 1.5 * eagers.max()


def test_rows_are_sorted_by_expert_and_gathered_back():
    """Bytes are sorted, masks that hide nothing are gone, and no gradient is scattered."""

    def function(x, w):
        weights, chosen = torch.topk(torch.softmax(x @ w, -1), 2)
        ids, order = chosen.reshape(-1).sort()
        rows = x[order // 2].masked_fill((ids >= 8)[:, None], 0.0).sin() * weights.reshape(-1)[order][:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0], device=x.device)
        return rows[back].view(-1, 2, x.shape[1]).sum(1), torch.histc(ids.int(), 8, 0, 7)

    def run(call, x, w):
        x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
        out, counts = call(x, w)
        out.backward(torch.linspace(-1, 1, out.numel(), dtype=x.dtype, device="cuda").reshape(out.shape))
        return out.detach(), x.grad, w.grad, counts

    torch._dynamo.reset()
    x, w = torch.randn(4096, 64, device="cuda"), torch.randn(64, 8, device="cuda")
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise", "cudagraphs": True})
    for _ in range(3):
        found = [part.clone() for part in run(compiled, x, w)]
    for one, other in zip(found, run(function, x.double(), w.double())):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-4, atol=1e-4)


RUN = """
import torch
from bascule.pipelines import DEFAULT

x, w = (torch.ones(*sizes, device="cuda", dtype=torch.bfloat16) for sizes in ((80, 64), (3, 64, 64)))
ends = torch.tensor({ends}, device="cuda", dtype=torch.int32)
name = "expand-grouped-products"
options = {{"on_error": "raise", "pipeline": ",".join(f"{{each}}{{{{always=true}}}}" if each == name else each for each in DEFAULT)}}
torch.compile(lambda x, w, o: torch._grouped_mm(x, w, offs=o), backend="bascule", options=options)(x, w, ends)
torch.cuda.synchronize()
print("it went on")
"""


@pytest.mark.parametrize("ends, right", [([20, 30, 80], True), ([20, 81, 81], False), ([20, 10, 80], False)], ids=str)
def test_offsets_that_are_no_rows_end_the_program(ends, right):
    text = RUN.format(ends=ends)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert ("it went on" in done.stdout) == right == ("device-side assert" not in done.stderr), done.stderr
