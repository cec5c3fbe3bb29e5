"""Graphs that the tests of the tools run."""

import torch
import torch.nn.functional as F
from bascule.dialect.mlir import ir

from bascule.options import Options
from bascule.tools.graphs_at_stage import import_function


class Block(torch.nn.Module):
    """A block of a transformer: attention under a mask, then two layers."""

    def __init__(self, width: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).split(width, -1)
        q, k, v = (y.view(batch, length, self.heads, -1).transpose(1, 2) for y in parts)
        scores = (q @ k.transpose(-1, -2)) / (width // self.heads) ** 0.5
        hidden = torch.ones(length, length).tril() == 0
        weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


def imported(function, *inputs: torch.Tensor) -> ir.Module:
    """The module of `function`'s graph, as `bascule-import` prints it."""
    (module,) = import_function(function, inputs, stage="torch", options=Options(), grad=False, dynamic=False)
    return module


def block(dtype: torch.dtype = torch.float32) -> ir.Module:
    torch.manual_seed(0)
    return imported(Block().to(dtype), torch.randn(2, 8, 32, dtype=dtype))


def mixed(x, h, i):
    """16 and 32 bits, integers and booleans, results of each."""
    y = h.float() * x[i]
    return y.softmax(-1), (y > 0).sum(-1), (y.to(torch.bfloat16) * 3).cumsum(0), y.argmax(-1), h.exp()


GRAPHS = {
    "softmax": (lambda x: x.softmax(-1), torch.ones(8, 40)),
    "norms": (lambda x: x.square().mean(-1).rsqrt() * x.exp().sum(-1).log(), torch.ones(8, 40)),
    "layers": (lambda x, w: F.gelu(x @ w).sigmoid(), torch.ones(8, 40), torch.ones(40, 12)),
    "deviations": (lambda x: torch.var_mean(x + 3, -1), torch.ones(8, 40)),
    "scan": (lambda x: x.exp().cumsum(-1), torch.ones(4, 40)),
}
