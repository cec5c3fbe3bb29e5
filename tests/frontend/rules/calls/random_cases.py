"""Numbers of given seeds by whole graphs: the same on every target, of every size, however they are arranged."""

import torch
import torch._inductor.inductor_prims  # defines the operators
from torch.utils.checkpoint import checkpoint

draw, draw_whole = torch.ops.prims.inductor_random.default, torch.ops.prims.inductor_randint.default
SIZES = [(64, 128), (7, 13), (33, 6), (3, 5, 12), (5, 1026), (1,)]


def uniform(x, seed):
    return draw(x.shape, seed, "rand") + x


def normal(x, seed):
    return draw(x.shape, seed, "randn") + x


def whole(x, seed):
    return draw_whole(-5, 1000, x.shape, seed), draw_whole(0, 2**40, x.shape, seed)


def turned(x, seed):
    """Numbers along another dimension than that of the positions."""
    return draw(x.shape, seed, "rand").transpose(0, -1).contiguous(), draw(x.shape, seed, "rand").sum(-1)


def masks(x, seed):
    u = draw(x.shape, seed, "rand")
    return torch.where(u < 0.75, x.bfloat16(), 0), u < 0.75


FUNCTIONS = [uniform, normal, whole, turned, masks]


def seed() -> torch.Tensor:
    return torch.tensor(-(2**62) + 12345)


def flat(results) -> list[torch.Tensor]:
    return [r.cpu() for r in (results if isinstance(results, tuple) else (results,))]


def same(some, others) -> None:
    """Bit for bit, but for functions that targets compute differently: logarithms, cosines, sums."""
    for x, y in zip(flat(some), flat(others), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5 if x.is_floating_point() else 0, atol=1e-5)


def recomputed(x, w):
    """A dropout that the backward draws again."""
    return checkpoint(lambda x, w: torch.nn.functional.dropout((x * w).sin(), 0.5), x, w, use_reentrant=False)


def check_recomputed(call, device: str = "cpu") -> None:
    """The gradient is 0 where the result is, and nowhere else."""
    x = torch.rand(50, 70, device=device).add(0.1).requires_grad_()
    w = torch.full((70,), 0.5, device=device)
    y = call(x, w)
    y.sum().backward()
    assert 0.4 < (y != 0).float().mean() < 0.6
    want = torch.where(y == 0, 0, (x * w).cos() * w * 2)
    torch.testing.assert_close(x.grad, want.detach())
