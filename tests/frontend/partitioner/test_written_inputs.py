"""Gradients are of what an input was when the forward read it, though the forward writes to it later: a buffer, a cache."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F


def read_then_doubled(w: Tensor, b: Tensor) -> Tensor:
    found = F.gelu(b) * w
    b.mul_(2)
    return found


def a_view_of_it(w: Tensor, b: Tensor) -> Tensor:
    found = F.gelu(b.t()) * w
    b[1:].mul_(2)
    return found


def a_copy_of_it(w: Tensor, b: Tensor) -> Tensor:
    found = b.clone() @ w
    b.add_(1)
    return found


def rows_of_it(w: Tensor, b: Tensor) -> Tensor:
    found = torch.cat([part.exp() * w[:2] for part in b.split(2)])
    b.zero_()
    return found


def written_before_too(w: Tensor, b: Tensor) -> Tensor:
    b.mul_(0.5)
    found = torch.tanh(b.sin() @ w) @ w
    b.copy_(found.detach())
    return found


PROGRAMS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    read_then_doubled,
    a_view_of_it,
    a_copy_of_it,
    rows_of_it,
    written_before_too,
)
LAYOUTS = {
    "row-major": lambda: torch.randn(4, 4),
    "gaps": lambda: torch.randn(4, 8)[:, ::2],
    "column-major": lambda: torch.randn(4, 4).t(),
    "an offset": lambda: torch.randn(6, 4)[2:],
}


@pytest.mark.parametrize(
    "options", [{}, {"direct_calls": False}, {"target": "interpret"}, {"memory_budget": 1.0}], ids=str
)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_of_what_was_read(program, layout, dynamic, options):
    compiled = torch.compile(program, backend="bascule", dynamic=dynamic, options={"on_error": "raise", **options})
    for _ in range(2):
        w, given = torch.randn(4, 4, requires_grad=True), LAYOUTS[layout]()
        seen = []
        for function in (program, compiled):
            b = torch.empty_strided(given.shape, given.stride()).copy_(given)
            y = function(w, b)
            seen.append((y.detach(), torch.autograd.grad(y, w, torch.arange(16.0).view(4, 4))[0], b))
        torch.testing.assert_close(seen[1], seen[0])


def test_a_module_reads_its_buffer_and_updates_it():
    """As a codebook that moves with what it is compared with."""

    class Moving(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("codes", torch.randn(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(x)
            near = torch.softmax(y @ F.normalize(self.codes, dim=-1).t(), -1)
            with torch.no_grad():
                self.codes.mul_(0.9).add_(near.t() @ y, alpha=0.1)
            return near.square().sum()

    seen = []
    for backend in (None, "bascule"):
        torch.manual_seed(0)
        module = Moving()
        step = torch.compile(module, backend=backend, options={"on_error": "raise"}) if backend else module
        for _ in range(3):
            step(torch.randn(5, 4)).backward()
        seen.append([*(p.grad for p in module.parameters()), module.codes])
    torch.testing.assert_close(seen[1], seen[0])
