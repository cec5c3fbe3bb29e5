"""A backward whose forward saved a view of what the user has in hand, an input or a result, says that it was written since."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

PROGRAMS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, ...]]] = {
    "transposed": lambda x, w: (x @ w,),
    "a row": lambda x, w: (x[1] * w,),
    "two rows later": lambda x, w: (x[2:].t() @ w[2:],),
    "flattened": lambda x, w: (x.view(-1)[5:10] * w,),
    "parts": lambda x, w: tuple(part @ w for part in x.split([2, 3])),
    "detached": lambda x, w: (x.detach().t() * w,),
    "strided": lambda x, w: (x.as_strided((5, 5), (1, 5)) @ w,),
    "itself": lambda x, w: (x * w,),
    "a result": lambda x, w: (lambda y: (y.t() @ w, y))(x + 1),
    "what a result is a view of": lambda x, w: (lambda y: (y * w, y.t()))(x + 1),
    "of what a result is detached from": lambda x, w: (lambda y: (y.t() @ w, y.detach()))(x + 1),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options", [{}, {"direct_calls": False}, {"target": "interpret"}], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_sees_what_was_written(name, options, dynamic):
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend="bascule", dynamic=dynamic, options={"on_error": "raise", **options})
    weight = torch.randn(5, 5, requires_grad=True)
    for _ in range(2):  # the second call goes past AOTAutograd's wrappers
        for function in (program, compiled):
            x = torch.randn(5, 5)
            results = function(x, weight)
            given = [y for y in results if not y.requires_grad]  # beside those that are differentiated
            (given[0] if given else x).add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                sum(y.sum() for y in results if y.requires_grad).backward()


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_what_nobody_wrote_are_eagers(name):
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend="bascule", options={"on_error": "raise"})
    x, weight = torch.randn(5, 5), torch.randn(5, 5, requires_grad=True)
    for _ in range(2):
        want, got = ([y for y in function(x, weight) if y.requires_grad] for function in (program, compiled))
        tangents = [torch.randn_like(y) for y in want]
        torch.testing.assert_close(
            torch.autograd.grad(got, weight, tangents), torch.autograd.grad(want, weight, tangents)
        )
