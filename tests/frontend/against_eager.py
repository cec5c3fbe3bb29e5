"""How whole functions are tested: compiled by the backend, called once or more, and compared with eager, gradients included."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from bascule.entry.backend import compile_dynamo_graph
from bascule.reporting.compile_record import Record


def leaf(*sizes: int) -> torch.Tensor:
    """A random tensor that requires gradients."""
    return torch.randn(*sizes, requires_grad=True)


def check(
    function: Callable[..., Any],
    *calls: Sequence[Any],
    dynamic: bool | None = None,
    graphs: int | None = None,
    options: dict[str, Any] | None = None,
    **tolerance: float,
) -> list[Record]:
    """`function`, compiled, gives on each of `calls` (lists of arguments) what eager gives: numbers, strides, dtypes, the contents of the
    arguments afterwards, and gradients. `graphs`: how many graphs that may compile (one for all calls, if they only differ in sizes).
    `options`: of the backend.

    Returns the records of what was compiled.
    """
    torch._dynamo.reset()
    records: list[Record] = []
    captured = []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append(gm)
        asked = {"on_error": "raise", **(options or {})}
        return compile_dynamo_graph(gm, example_inputs, options=asked, on_record=records.append)

    settings = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(settings):
        compiled = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)
        for arguments in calls:
            _compare(function, compiled, arguments, tolerance)
    assert graphs is None or len(captured) == graphs
    return records


def _compare(function: Callable, compiled: Callable, arguments: Sequence[Any], tolerance: dict[str, float]) -> None:
    mine, theirs = list(map(_copy, arguments)), list(map(_copy, arguments))
    torch.manual_seed(7)
    got = compiled(*mine)
    torch.manual_seed(7)
    want = function(*theirs)
    close = partial(torch.testing.assert_close, **tolerance)
    pairs = list(zip(tree_leaves(got), tree_leaves(want), strict=True))
    for x, y in pairs:
        close(x, y)
        if isinstance(y, torch.Tensor) and y.numel():
            assert all(size == 1 or s == t for size, s, t in zip(y.shape, x.stride(), y.stride()))
            assert x.requires_grad == y.requires_grad
    differentiable = [(x, y) for x, y in pairs if isinstance(y, torch.Tensor) and y.requires_grad]
    weights = [torch.randn_like(y) for _, y in differentiable]
    for outputs in zip(*differentiable):
        torch.autograd.backward(outputs, weights)
    for x, y in zip(mine, theirs):
        close(x, y)
        if isinstance(y, torch.Tensor) and y.requires_grad:
            assert (x.grad is None) == (y.grad is None)
            if y.grad is not None:
                close(x.grad, y.grad)


def _copy(argument: Any) -> Any:
    if not isinstance(argument, torch.Tensor):
        return argument
    return argument.detach().clone().requires_grad_(argument.requires_grad)


def cut_at(records: Sequence[Record]) -> list[str]:
    """The operators at which the graphs were cut."""
    return [cut.operator for record in records for cut in record.cuts]
