"""Results that share memory are for autograd as in eager: `_is_view()`, `_base`, `requires_grad`, `is_leaf` and version counters.

Where AOTAutograd's own wrapper makes the difference, it is as under `aot_eager`: a result that requires gradients alone is no view, and a
tensor that was made in the graph has no version yet.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Program = Callable[[Tensor], object]


def beside(view: Callable[[Tensor], object]) -> Program:
    """A result, and what `view` takes of it."""

    def program(x: Tensor) -> object:
        y = x * 2
        return y, view(y)

    return program


def written_through_a_view(x: Tensor) -> object:
    y = x * 2
    y[1:].add_(1)
    return y[1:], y


def written_detached(x: Tensor) -> object:
    y = x * 2
    return y.detach().mul_(2)[1:], y


PROGRAMS: dict[str, Program] = {
    "a view of a result": beside(lambda y: y[1:]),
    "of the same sizes": beside(lambda y: y.view_as(y)),
    "of a view": beside(lambda y: y[1:].t()[1:]),
    "two views": lambda x: (lambda y: (y[1:], y.t()))(x * 2),
    "a view alone": lambda x: (x * 2)[1:],
    "flattened": lambda x: (x * 2).reshape(-1),
    "expanded": lambda x: (x * 2).unsqueeze(0).expand(3, -1, -1),
    "chunks": lambda x: (x * 2).chunk(2),
    "rows": lambda x: (x * 2).unbind(),
    "detached": beside(lambda y: y.detach()),
    "detached alone": lambda x: (x * 2).detach(),
    "a detached view": beside(lambda y: y[1:].detach()),
    "a view of a detached one": beside(lambda y: y.detach()[1:]),
    "a view of a detached one alone": lambda x: (x * 2).detach()[1:],
    "the input detached": lambda x: (x.detach(), x * 2),
    "a detached view of the input": lambda x: (x[1:].detach(), x * 2),
    "a view of the input": lambda x: (x[1:], x * 2),
    "parts of the input": lambda x: x.split(2),
    "a view of a constant": lambda x: (torch.ones(3)[1:], x * 2),
    "the same twice": beside(lambda y: y),
    "of another dtype": beside(lambda y: y.view(torch.int32)),
    "of another dtype, and of it": lambda x: (lambda y: (y.view(torch.int32), y[1:].view(torch.int32)))(x * 2),
    "of another dtype of the input": lambda x: (x.view(torch.int32), x * 2),
    "complex parts": lambda x: (lambda y: (y, y.real, y.imag[1:]))(torch.complex(x, x)),
    "a real part alone": lambda x: torch.complex(x, x).real,
    "complex numbers of the input": lambda x: torch.view_as_complex(x.view(5, 2, 2)),
    "conjugated": lambda x: (lambda y: (y, y.conj(), y.conj().imag))(torch.complex(x, x)),
    "conjugated alone": lambda x: torch.complex(x, x).conj()[1:],
    "written through a view": written_through_a_view,
    "written detached": written_detached,
}
# gradients are on, the input requires them, sizes are dynamic
MODES = [(True, False, False), (True, False, True), (True, True, True), (False, False, True)]


def told(x: Tensor, results: object) -> list[object]:
    """Each result as autograd sees it, and the versions of all that change with its own."""
    outputs = [results] if isinstance(results, Tensor) else list(results)
    known = [x, *outputs]

    def number(of: Tensor | None) -> int | None:
        return next((n for n, other in enumerate(known) if other is of), -1) if of is not None else None

    seen: list[object] = [
        (
            number(y),
            number(y._base),
            y._is_view(),
            y.requires_grad,
            y.is_leaf,
            y.is_contiguous(),
            y.is_conj(),
            y.is_neg(),
        )
        for y in outputs
    ]
    for y in outputs:
        before = [z._version for z in known]
        torch.autograd.graph.increment_version(y)
        seen.append([z._version - then for z, then in zip(known, before)])
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_views_as_in_eager(name):
    program = PROGRAMS[name]

    def run(function: Program, grad: bool, needed: bool) -> list[object]:
        x = torch.randn(4, 5)
        x = x.requires_grad_() * 1 if needed else x
        with torch.set_grad_enabled(grad):
            return told(x, function(x))

    for grad, needed, dynamic in MODES:
        torch._dynamo.reset()
        compiled = torch.compile(program, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
        want, got = run(program, grad, needed), [run(compiled, grad, needed) for _ in range(3)]
        if got != [want] * 3:
            torch._dynamo.reset()
            want = run(torch.compile(program, backend="aot_eager", dynamic=dynamic), grad, needed)
        assert got == [want] * 3, (grad, needed, dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_view_of_a_result_is_written_what_requires_gradients(dynamic):
    """Its base requires them then. `aot_eager` refuses: it makes views without gradients."""

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y, y[1:]

    compiled = torch.compile(program, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    gradients = []
    for function in (program, compiled, compiled):
        weight = torch.tensor(3.0, requires_grad=True)
        y, part = function(torch.ones(4, 5))
        part.mul_(weight)
        assert part._base is y and y.requires_grad
        gradients.append(torch.autograd.grad(y.sum(), weight)[0])
    assert len({float(g) for g in gradients}) == 1


def test_a_backward_sees_that_what_it_saved_was_written_through_another_result():
    program = torch.compile(lambda x: (lambda y: (y, y[1:], y.detach()))(x * 2), backend="bascule")
    for writer in (0, 1, 2):
        results = program(torch.ones(4, 5))
        weight = torch.ones((), requires_grad=True)
        loss = (results[1] * weight).sum()
        results[writer].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
