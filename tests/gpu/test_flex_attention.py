"""`flex_attention` trained on a GPU: results and gradients against eager in f64, and which kernels run."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import bascule
from tests.lowering.triton.kernels.test_attention_training import check
from tests.lowering.triton.kernels.test_flex_attention import CASES, MASKS, SCORES, inputs

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
BF16 = torch.bfloat16


def train(score, mask, *given, dtype=BF16, most=7):
    """`given` are queries, keys, values, and what `score` captures after indices."""
    q, k = given[:2]
    blocks = create_block_mask(mask, None, None, q.shape[2], k.shape[2], device="cuda")

    def function(q, k, v, *captured):
        change = lambda *args: score(*args, *captured)  # noqa: E731
        shared = q.shape[1] != k.shape[1]
        return flex_attention(q, k, v, score_mod=change, block_mask=blocks, enable_gqa=shared, return_lse=True)

    def run(function, given, seeds):
        given = [x.detach().requires_grad_() for x in given]
        results = function(*given)
        return [*(x.detach() for x in results), *torch.autograd.grad(results, given, seeds)]

    generator = torch.Generator("cuda").manual_seed(1)
    sizes = (*q.shape[:3], given[2].shape[3])
    seed = torch.randn(sizes, generator=generator, device="cuda", dtype=torch.float64)
    of_logarithm = torch.randn(sizes[:3], generator=generator, device="cuda", dtype=torch.float64)
    wide = [x.double() for x in given]
    empty = function(*wide)[1] == -torch.inf
    of_logarithm = of_logarithm.masked_fill(empty, 0)
    torch._dynamo.reset()
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"}, dynamic=False)
    found = run(compiled, given, [seed.to(dtype), of_logarithm.float()])
    assert bascule.counters()["kernels"]["launches"] - before <= most
    wanted = run(function, wide, [seed.to(dtype).double(), of_logarithm])
    found[1], wanted[1] = (x.masked_fill(empty, 0).to(dtype) for x in (found[1], wanted[1]))
    check(found, [x.double().nan_to_num(0) if empty.any() else x.double() for x in wanted], dtype)


@pytest.mark.parametrize("score, mask", CASES, ids=str)
def test_training(score, mask):
    given = [x.cuda() for x in inputs(rows=300, keys=400, deep=64, columns=64)]
    train(SCORES[score], MASKS[mask], *given, most=12 if "captured" in score + mask or mask == "documents" else 7)


@pytest.mark.parametrize("dtype", [torch.float16, BF16], ids=str)
@pytest.mark.parametrize("deep, columns", [(16, 16), (64, 128), (80, 48), (128, 128), (256, 64)])
def test_heads(deep, columns, dtype):
    given = [x.cuda() for x in inputs(rows=513, keys=700, deep=deep, columns=columns, dtype=dtype)]
    train(SCORES["softcap"], MASKS["causal"], *given, dtype=dtype, most=7 + (deep != columns))


@pytest.mark.parametrize("shared", [2, 4])
def test_heads_that_share_keys(shared):
    given = [x.cuda() for x in inputs(rows=300, keys=300, deep=64, columns=64, shared=shared)]
    train(SCORES["softcap"], MASKS["causal"], *given, most=14)


TRAINED = {
    "slopes": (lambda s, b, h, i, j, c: s + c[h] * (j - i), torch.tensor([0.05, 0.1, -0.02, 0.3])),
    "batches": (lambda s, b, h, i, j, c: s * c[b], torch.tensor([0.5, 1.5])),
    "keys": (lambda s, b, h, i, j, c: s + c[h, j], torch.linspace(-1, 1, 4 * 400).view(4, 400)),
    "a bias": (lambda s, b, h, i, j, c: s + c[h, i, j], torch.linspace(-2, 1, 4 * 300 * 400).view(4, 300, 400)),
    "distances": (
        lambda s, b, h, i, j, c: s + c[(j - i).clamp(-30, 30) + 30, h],
        torch.linspace(0, 1, 61 * 4).view(61, 4),
    ),
}


@pytest.mark.parametrize("name", TRAINED)
def test_captured_tensors_that_train(name):
    """Their gradients are summed in kernels that have no score in memory."""
    score, captured = TRAINED[name]
    given = [x.cuda() for x in inputs(rows=300, keys=400, deep=64, columns=64)]
    train(score, MASKS["causal"], *given, captured.cuda().bfloat16(), most=16)


@pytest.mark.parametrize("rows, shared, keys", [(1, 4, 4096), (4, 2, 2048), (3, 4, 8192), (1, 1, 4096), (1, 4, 3000)])
def test_few_rows_over_many_keys(rows, shared, keys):
    """Keys go into parts, or, where there is one row for each, do not."""
    q, k, v = (x.cuda() for x in inputs(rows=rows, keys=keys, deep=128, columns=128, heads=8, shared=shared))

    def late(b, h, i, j):
        return (j > keys // 2 + 10 * i) & (i != 2)

    blocks = create_block_mask(late, None, None, rows, keys, device="cuda")

    def function(q, k, v):
        change = SCORES["by batch and head"]
        return flex_attention(q, k, v, score_mod=change, block_mask=blocks, enable_gqa=shared > 1, return_lse=True)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"}, dynamic=False)
    found, logarithm = compiled(q, k, v)
    wanted, of_wanted = function(q.double(), k.double(), v.double())
    check([found], [wanted], BF16)
    assert torch.allclose(logarithm.double(), of_wanted, rtol=1e-4, atol=1e-4)
