"""Functions that exercise each kind of kernel, for the targets that go through Triton's IR."""

import torch
from torch.nn import functional as F


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def overwrite(x, y):
    x.mul_(2).add_(y)
    y[1:] = x[:-1]
    return x.sum()


def put(x, index, values):
    return x.index_put((index,), values, accumulate=True)


R = torch.randn
CASES = {
    "pointwise": (lambda x, y: torch.tanh(x) * y + x.relu(), [R(7, 33), R(33)]),
    "transposed": (lambda x, y: x.t() + y, [R(9, 21), R(21, 9)]),
    "sum of rows": (lambda x: x.square().sum(-1), [R(5, 130)]),
    "sum of columns": (lambda x: x.exp().sum(0), [R(70, 40)]),
    "sum of everything": (lambda x: (x * x).sum(), [R(50, 60)]),
    "mean and variance": (lambda x: torch.var_mean(x, -1), [R(6, 200)]),
    "largest": (lambda x: x.max(-1), [R(6, 100)]),
    "any": (lambda x: (x > 2).any(-1), [R(6, 100)]),
    "softmax": (lambda x: torch.softmax(x, -1), [R(5, 77)]),
    "log_softmax of columns": (lambda x: torch.log_softmax(x, 0), [R(30, 8)]),
    "a long row": (lambda x: torch.softmax(x, -1), [R(2, 20000)]),
    "long rows that programs share": (
        lambda x: (torch.softmax(x, -1), F.normalize(x, dim=-1), x.norm(dim=-1)),
        [R(34, 65600)],
    ),
    "layer_norm": (layer_norm, [R(4, 50), R(50), R(50)]),
    "layer_norm with gradients": (
        layer_norm,
        [R(12, 50).requires_grad_(), R(50).requires_grad_(), R(50).requires_grad_()],
    ),
    "attention": (
        lambda q, k: torch.softmax(q @ k.transpose(-1, -2), -1) @ k,
        [R(2, 3, 5, 8).requires_grad_(), R(2, 3, 5, 8)],
    ),
    "cat": (lambda x, y: torch.cat([x, y * 2], 1).sin(), [R(3, 5), R(3, 9)]),
    "pad": (lambda x: F.pad(x, (1, 2, 3, 0), value=4.0) * 2, [R(5, 6)]),
    "cumsum": (lambda x: x.cumsum(-1), [R(4, 60)]),
    "cumsum of short sums": (lambda x: (x * x).sum(-1).neg().cumsum(-1), [R(4, 60, 5)]),
    "embedding": (lambda i, w: F.embedding(i, w) * 2, [torch.randint(0, 11, (4, 6)), R(11, 10).requires_grad_()]),
    "index_put": (put, [R(9, 4), torch.tensor([0, 3, 3, 8]), R(4, 4)]),
    "scatter of narrow elements": (
        lambda b, n, h, i: (
            b.scatter_reduce(0, i, ~b, "amin"),
            n.index_add(0, i, n + 100),
            h.scatter_reduce(0, i, -2 * h, "amax"),
        ),
        [R(9) > 0, torch.arange(9, dtype=torch.int8), R(9).bfloat16(), torch.tensor([0, 3, 3, 8, 1, 1, 1, 2, 8])],
    ),
    "gather": (lambda x, i: x.gather(1, i), [R(4, 9).requires_grad_(), torch.randint(0, 9, (4, 5))]),
    "in place": (overwrite, [R(6, 5), R(6, 5)]),
    "bf16": (lambda x, y: torch.softmax(x * y, -1), [R(4, 90).bfloat16(), R(4, 90).bfloat16()]),
    "integers": (
        lambda x, y: (x // y, x % y, x << 2, x.float().mean()),
        [torch.randint(-99, 99, (50,)), torch.randint(1, 9, (50,))],
    ),
    "booleans": (lambda x, y: (x & ~y, x ^ y), [R(40) > 0, R(40) > 0]),
    "f64": (lambda x: torch.special.erf(x).cumsum(0), [R(40).double()]),
    "no elements": (lambda x: (x + 1, x.sum()), [R(0, 4)]),
    "one element": (lambda x, y: x * y, [R(()), R(5)]),
    "views": (lambda x: (x[1:].view(-1) + 1, x.unsqueeze(0).expand(3, -1, -1).mul(2)), [R(5, 4)]),
    "pooling": (lambda x: F.max_pool2d(x, 2), [R(2, 3, 8, 8).requires_grad_()]),
    "convolution and batch_norm": (
        lambda x, w, g: F.batch_norm(F.conv2d(x, w), None, None, g, training=True).relu(),
        [R(2, 3, 8, 8), R(4, 3, 3, 3).requires_grad_(), R(4).requires_grad_()],
    ),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), [R(6, 50).requires_grad_(), torch.randint(0, 50, (6,))]),
}
# Those that PyTorch does not run on a GPU: it scatters no booleans there.
EAGER_ON_HOST = ["scatter of narrow elements"]
# Those that are compiled for dynamic sizes too.
DYNAMIC = ["pointwise", "sum of rows", "sum of columns", "softmax", "layer_norm with gradients", "cat"]


def results(call, inputs):
    """Outputs, inputs afterwards and gradients of `call` on copies of `inputs`."""
    own = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    outputs = call(*own)
    outputs = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    torch.manual_seed(1)
    roots = [x for x in outputs if x.requires_grad]
    leaves = [x for x in own if x.requires_grad]
    gradients = torch.autograd.grad(roots, leaves, [torch.randn_like(x) for x in roots]) if roots else []
    return [*(x.detach() for x in outputs), *(x.detach() for x in own), *gradients]


def tolerance(name):
    return {"rtol": 1.6e-2, "atol": 1e-3} if name == "bf16" else {"rtol": 2e-6, "atol": 2e-5}


def check(name, call, inputs):
    """`call`, the case's function compiled, as the function itself: values and strides."""
    function, on_host = CASES[name]
    wanted = results(function, on_host if name in EAGER_ON_HOST else inputs)
    for want, got in zip(wanted, results(call, inputs), strict=True):
        torch.testing.assert_close(got, want.to(got.device), **tolerance(name))
        assert got.stride() == want.stride()


def check_misaligned(compiled, shift, dtype=torch.float32, device="cpu"):
    """An input `shift` elements from where it would be aligned is copied for the kernels; what is written to it arrives."""

    def function(x, y):
        x.mul_(2)
        return x + y

    memory, y = ((torch.randn(*sizes, device=device) * 9).to(dtype) for sizes in ([64 * 64 + shift], [64, 64]))
    want, got = memory.clone(), memory.clone()
    first = function(want[shift:].view(64, 64), y)
    assert torch.equal(compiled(function)(got[shift:].view(64, 64), y), first)
    assert torch.equal(got, want)


def gpt2(batch=2, length=16):
    """A model of GPT-2's form, two layers of 32, and the arguments of a training step."""
    transformers = __import__("transformers")
    config = transformers.GPT2Config(
        vocab_size=101,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=4,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
        bos_token_id=0,
        eos_token_id=0,
    )
    ids = torch.randint(0, 101, (batch, length))
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def training_step(model, call, inputs):
    """The loss, then every gradient."""
    model.zero_grad()
    loss = call(**inputs).loss
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
