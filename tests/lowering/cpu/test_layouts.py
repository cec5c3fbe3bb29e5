"""Tensors whose memory runs in another order than their dimensions, of sizes that are known and not: values and strides."""

from itertools import permutations
from random import Random

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

ORDERS = sorted(permutations(range(4)))
# Around a vector of one register and of several, under a mask or whole.
SIZES = (2, 3, 5, 15, 16, 17, 33, 70)

PROGRAMS = {
    "elements": lambda x: (x * 2).sin() + 1,
    "rows": lambda x: x.softmax(-1),
    "channels": lambda x: F.layer_norm(x.movedim(1, -1), (x.shape[1],)).movedim(-1, 1),
    "a bias": lambda x: x + x.mean((0, 2, 3), keepdim=True),
    "all": lambda x: (x.sum(), x.amax(), x.argmax()),
    "two sums": lambda x: (x / x.square().sum((1, 3), keepdim=True), x.var((1, 3))),
    "pieces": lambda x: torch.cat([x, x.flip(1)], 1) * 3,
    "windows": lambda x: F.avg_pool2d(x, 2, 1, 1, count_include_pad=False),
    "in place": lambda x: x.clone().mul_(2).index_put_((torch.tensor([0, 1, 0]),), x[:1] * 3),
    "in memory's order": lambda x: x.as_strided((x.numel(),), (1,)) * 2,
}


def laid_out(sizes: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    """A tensor of `sizes` whose dims are in memory in `order`, slowest first."""
    back = [order.index(k) for k in range(len(order))]
    return torch.randn([sizes[k] for k in order]).permute(back)


def drawn(seed: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    random = Random(seed)
    sizes = [random.choice(SIZES[:4]) for _ in range(4)]
    sizes[random.randrange(4)] = random.choice(SIZES)
    return tuple(sizes), random.choice(ORDERS)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(6))
def test_known_sizes(name, seed):
    torch.manual_seed(seed)
    compared(torch.compile(PROGRAMS[name], backend="bascule", dynamic=False), PROGRAMS[name], *drawn(seed))


@pytest.mark.parametrize("name", PROGRAMS)
def test_unknown_sizes(name):
    torch.manual_seed(0)
    compiled = torch.compile(PROGRAMS[name], backend="bascule", dynamic=True)
    order = drawn(len(name))[1]
    for seed in range(6):
        compared(compiled, PROGRAMS[name], drawn(seed)[0], order)


def compared(compiled, function, sizes, order):
    x = laid_out(sizes, order)
    got, want = compiled(x), function(x)
    exact = function(x.double())
    for mine, theirs, value in zip(*([r] if isinstance(r, Tensor) else r for r in (got, want, exact))):
        off = (theirs - value).abs().max().item()  # what f32 allows: a norm of two channels cancels
        torch.testing.assert_close(mine.double(), value.double(), rtol=1e-5, atol=1e-5 + 4 * off)
        assert mine.stride() == theirs.stride(), (sizes, order)
