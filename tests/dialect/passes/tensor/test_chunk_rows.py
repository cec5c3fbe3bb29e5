"""Losses over rows of logits, and their gradients, are those of eager in f64 where logits are made by chunks; what cannot be stays whole."""

import random
import re

import pytest
import torch
from torch.nn import functional as F

import bascule
from bascule.pipelines import DEFAULT

FEW, MANY = "chunk-rows{least=4096 bytes=65536 fewest=4}", "chunk-rows{least=4096 bytes=1}"


def options(chunk=FEW):
    pipeline = ",".join(chunk if name == "chunk-rows" else name for name in DEFAULT)
    return {"pipeline": pipeline, "on_error": "raise", "fallback": "error", "cache": False}


VOCABULARY, WIDTH = 257, 24


def shifted(x, w, b, ids):
    logits = F.linear(x, w)[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1).to(wide(x)), ids[:, 1:].flatten())


def flat(x, w, b, ids):
    return F.cross_entropy(F.linear(x.flatten(0, 1), w, b).to(wide(x)), ids.flatten(), label_smoothing=0.1)


def by_row(x, w, b, ids):
    """A loss a row: it is put together of the chunks'."""
    return F.cross_entropy(F.linear(x, w, b).flatten(0, 1).to(wide(x)), ids.flatten(), reduction="none").view_as(ids)


def ignoring(x, w, b, ids):
    return F.cross_entropy(F.linear(x, w).flatten(0, 1).to(wide(x)), ids.flatten().where(ids.flatten() > 20, -100))


def z_loss(x, w, b, ids):
    logits = F.linear(x, w, b).to(wide(x))
    picked = logits.gather(-1, ids[..., None])[..., 0]
    normal = logits.logsumexp(-1)
    return (normal - picked).mean() + 1e-2 * normal.square().mean()


def capped(x, w, b, ids):
    logits = 5 * torch.tanh(F.linear(x, w).to(wide(x)) / 5)
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="sum")


def distilled(x, w, b, ids):
    """The rows of two products."""
    teacher = F.linear(x.detach().flip(-1), w.detach(), b).to(wide(x))
    return F.kl_div(F.linear(x, w).to(wide(x)).log_softmax(-1), teacher.log_softmax(-1), log_target=True)


def hidden(x, w, b, ids):
    """No loss: what two products have between them."""
    return (F.gelu(F.linear(x.flatten(0, 1), w, b)) @ w).square().mean()


PROGRAMS = [shifted, flat, by_row, ignoring, z_loss, capped, distilled, hidden]
SIZES = [(4, 16), (1, 61), (3, 23), (8, 9), (2, 37)]


def wide(x):
    return torch.promote_types(x.dtype, torch.float32)


def operands(rows, dtype):
    g = torch.Generator().manual_seed(0)
    x, w, b = (
        torch.randn(size, generator=g).to(dtype) for size in ((*rows, WIDTH), (VOCABULARY, WIDTH), (VOCABULARY,))
    )
    return [x, w, b], torch.randint(VOCABULARY, rows, generator=g)


def with_gradients(function, tensors, ids):
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    loss = function(*leaves, ids)
    return [loss.detach(), *torch.autograd.grad(loss.sum(), leaves, allow_unused=True)]


def chunks(function, *inputs):
    """Of each graph: what the pass says of it."""
    torch._dynamo.reset()
    told = bascule.explain(function, *inputs, options=options()).graphs
    return [[str(remark) for remark in graph.remarks if remark.pass_name == "chunk-rows"] for graph in told]


@pytest.mark.parametrize("chunk", [FEW, MANY])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", SIZES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_losses_and_gradients(program, rows, dtype, chunk):
    tensors, ids = operands(rows, dtype)
    torch._dynamo.reset()
    found = with_gradients(torch.compile(program, backend="bascule", options=options(chunk)), tensors, ids)
    wanted = with_gradients(program, [x.double() for x in tensors], ids)
    eager = with_gradients(program, tensors, ids)
    for got, want, plain in zip(found, wanted, eager, strict=True):
        if want is None:
            assert got is None
            continue
        assert got.shape == plain.shape and got.dtype == plain.dtype
        size = want.abs().max().item()
        error = (got.double() - want).abs().max().item()
        assert error <= 3 * (plain.double() - want).abs().max().item() + 4e-6 * size


@pytest.mark.parametrize("rows", SIZES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_forward_alone(program, rows):
    tensors, ids = operands(rows, torch.float32)
    torch._dynamo.reset()
    with torch.no_grad():
        found = torch.compile(program, backend="bascule", options=options())(*tensors, ids)
    torch.testing.assert_close(found.double(), program(*(x.double() for x in tensors), ids), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_by_chunks(program):
    """Forward alone, the logits are never whole; in training the forward saves them, and their gradient is never whole."""
    tensors, ids = operands((4, 16), torch.float32)
    with torch.no_grad():
        (forward,) = chunks(program, *tensors, ids)
    assert any(re.search(r"computed in [48] chunks of rows", remark) for remark in forward)
    *_, backward = chunks(program, *(x.requires_grad_() for x in tensors), ids)
    assert any("chunks of rows" in remark and "not" not in remark for remark in backward)


def test_one_row_less():
    """The last token of one sequence predicts nothing: sizes of 61 and 60 have no divisor in common."""
    tensors, ids = operands((1, 61), torch.float32)
    with torch.no_grad():
        (forward,) = chunks(shifted, *tensors, ids)
    *_, backward = chunks(shifted, *(x.requires_grad_() for x in tensors), ids)
    assert all(any("computed in 4 chunks of rows" in remark for remark in told) for told in (forward, backward))


def whole(x, w, b, ids):
    return F.linear(x, w).relu()


def mixed(x, w, b, ids):
    """Each row of the result needs all of the logits' rows."""
    return F.linear(x, w).flatten(0, 1).softmax(0)


@pytest.mark.parametrize("program", [whole, mixed])
def test_what_stays_whole(program):
    tensors, ids = operands((4, 16), torch.float32)
    with torch.no_grad():
        (told,) = chunks(program, *tensors, ids)
        assert told and all("not computed by chunks" in remark for remark in told)
        found = torch.compile(program, backend="bascule", options=options())(*tensors, ids)
    torch.testing.assert_close(found, program(*tensors, ids), rtol=1e-4, atol=1e-5)


# Steps of random programs: of rows of logits to such rows, and, last, to something small.
STEPS = [
    lambda y, ids, w: y.relu() + 0.1,
    lambda y, ids, w: y.softmax(-1),
    lambda y, ids, w: y - y.amax(-1, keepdim=True),
    lambda y, ids, w: y * w.sum(-1),
    lambda y, ids, w: y.where(ids[:, None] > 100, 0.5 * y),
    lambda y, ids, w: y.view(4, -1, VOCABULARY)[:, 1:].flatten(0, 1) if y.shape[0] % 4 == 0 and y.shape[0] > 16 else y,
    lambda y, ids, w: F.pad(y.view(2, -1, VOCABULARY), (0, 0, 0, 1)).flatten(0, 1) if y.shape[0] % 2 == 0 else y,
    lambda y, ids, w: y + torch.arange(y.shape[0])[:, None] * 0.01,
    lambda y, ids, w: y.flip(0),  # the others cannot be by chunks
    lambda y, ids, w: y.roll(3, 0),
    lambda y, ids, w: y.cumsum(-1) * 0.1,
    lambda y, ids, w: y - y.mean(0),
]
ENDS = [
    lambda y, ids, w: y.logsumexp(-1),
    lambda y, ids, w: y.square().mean(),
    lambda y, ids, w: y.argmax(-1),
    lambda y, ids, w: (y @ w, y.sum(0)),
    lambda y, ids, w: (y.t() @ y[:, :8], y.amax()),
    lambda y, ids, w: y.gather(1, ids[: y.shape[0], None] if y.shape[0] <= len(ids) else y.argmin(-1, True)),
]


def fitting(step):
    """A condition of rows fits where there are as many."""
    return lambda y, ids, w: step(y, ids if len(ids) == len(y) else torch.arange(len(y)) * 7 % 200, w)


@pytest.mark.parametrize("seed", range(48))
def test_random_programs(seed):
    chosen = random.Random(seed)
    steps = [*chosen.choices(STEPS[:8], k=chosen.randint(1, 3)), *chosen.choices(STEPS, k=chosen.randint(0, 1))]
    chosen.shuffle(steps)
    end = chosen.choice(ENDS)

    def program(x, w, b, ids):
        y = F.linear(x.flatten(0, 1), w, b)
        for step in steps:
            y = fitting(step)(y, ids.flatten(), w)
        found = fitting(end)(y, ids.flatten(), w)
        return found if isinstance(found, tuple) else (found,)

    tensors, ids = operands(chosen.choice([(4, 16), (8, 9), (2, 36)]), torch.float32)
    torch._dynamo.reset()
    with torch.no_grad():
        found = torch.compile(program, backend="bascule", options=options(chosen.choice([FEW, MANY])))(*tensors, ids)
    for got, want in zip(found, program(*(x.double() for x in tensors), ids), strict=True):
        if got.is_floating_point():
            size = max(1.0, want.abs().max().item())
            torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5 * size)
        else:
            assert torch.equal(got, want)
