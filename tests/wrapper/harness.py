"""A wrapper case: one situation, run in eager mode and compiled, and everything a user could see of it compared.

Two forms. A `Case` is a function and its inputs: outputs, inputs afterwards and gradients are compared. A `Program` is given `compile`, which is
either nothing or `torch.compile`, and returns what is to be compared: for what is no single call.
`BASCULE_TEST_DEVICE=cuda` runs all of them on another device.
"""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

DEVICE = os.environ.get("BASCULE_TEST_DEVICE", "cpu")
OPTIONS = {"on_error": "raise", **({} if DEVICE == "cpu" else {"target": DEVICE})}


@dataclass(frozen=True)
class Case:
    """`inputs()` gives the same arguments each time it is called with one seed. `grad=False`: called under `no_grad`.

    `fullgraph=False`: Dynamo breaks the graph at what it does not trace. `tolerance`: relative and absolute, where the default is too tight.
    """

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], list[Any]]
    dynamic: bool = False
    grad: bool = True
    fullgraph: bool = True
    tolerance: float | None = None


@dataclass(frozen=True)
class Program:
    """`run(compile)` returns a tree of tensors and plain values. `fullgraph=False`: Dynamo may break the graph."""

    name: str
    run: Callable[[Callable], Any]
    dynamic: bool | None = False
    fullgraph: bool = True
    tolerance: float | None = None
    options: dict[str, Any] = field(default_factory=dict)


def r(*sizes: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers; with `grad` a leaf that requires gradients."""
    return torch.randn(sizes, dtype=dtype, device=DEVICE).requires_grad_(grad)


def indices(*values: int) -> torch.Tensor:
    return torch.tensor(values, device=DEVICE)


def gradients(out: list[torch.Tensor], *leaves: torch.Tensor) -> list[torch.Tensor | None]:
    """Of `leaves`, for tangents that differ from element to element."""
    tangents = [torch.linspace(-1, 2, t.numel(), device=t.device).view(t.shape) for t in out]
    return list(torch.autograd.grad(out, leaves, tangents, allow_unused=True))


def raised(kind: type[Exception], call: Callable[[], Any]) -> str:
    """Whether `call` raised, to be compared."""
    try:
        call()
    except kind:
        return "raised"
    return "passed"


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def strides(tensor: torch.Tensor) -> list[int]:
    """The strides of dimensions longer than 1: those of the others say nothing."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1] if tensor.numel() else []


def sharing(tensors: list[torch.Tensor]) -> list[tuple[int, int, int]]:
    """The pairs that share memory, and how many bytes the second starts after the first."""
    where = [t.untyped_storage().data_ptr() if t.numel() else -1 - i for i, t in enumerate(tensors)]
    pairs = combinations(range(len(tensors)), 2)
    return [(i, j, tensors[j].data_ptr() - tensors[i].data_ptr()) for i, j in pairs if where[i] == where[j]]


def same_objects(tensors: list[torch.Tensor]) -> list[tuple[int, int]]:
    """The pairs that are one object."""
    return [(i, j) for i, j in combinations(range(len(tensors)), 2) if tensors[i] is tensors[j]]


@dataclass
class Seen:
    """The observable state after a call."""

    outputs: Any
    inputs: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    written: list[bool]  # the inputs whose version counter moved
    identical: list[tuple[int, int]]


def observe(case: Case, function: Callable[..., Any]) -> Seen:
    torch.manual_seed(0)
    inputs = case.inputs()
    given = tensors_in(inputs)
    versions = [t._version for t in given]
    with torch.set_grad_enabled(case.grad):
        outputs = function(*inputs)
    written = [t._version != version for t, version in zip(given, versions)]
    made = tensors_in(outputs)
    identical = same_objects([*given, *made])
    leaves = [t for t in given if t.requires_grad and t.is_leaf]
    ends = [t for t in {id(t): t for t in (*made, *given)}.values() if t.requires_grad and t.grad_fn is not None]
    gradients: list[torch.Tensor | None] = []
    if leaves and ends and case.grad:
        tangents = [torch.linspace(-1, 2, max(t.numel(), 1), device=t.device)[: t.numel()].view(t.shape) for t in ends]
        tangents = [tangent.to(t.dtype) for tangent, t in zip(tangents, ends)]
        gradients = list(torch.autograd.grad(ends, leaves, tangents, allow_unused=True))
    return Seen(outputs, given, gradients, written, identical)


def compiled(function: Callable[..., Any], dynamic: bool | None = False, fullgraph: bool = True, **options: Any) -> Any:
    return torch.compile(
        function, backend="bascule", options={**OPTIONS, **options}, dynamic=dynamic, fullgraph=fullgraph
    )


def check_case(case: Case) -> None:
    torch._dynamo.reset()
    ours = compiled(case.function, case.dynamic, case.fullgraph)
    for _ in range(2):  # the second call meets memory that the first has used
        check_seen(case, observe(case, ours), observe(case, case.function))


def check_seen(case: Case, got: Seen, wanted: Seen) -> None:
    """Raises `AssertionError` if what is seen of the compiled call is not what is seen of the eager one."""
    close = {} if case.tolerance is None else {"rtol": case.tolerance, "atol": case.tolerance}
    assert_close(got.outputs, wanted.outputs, **close)
    assert_close(got.inputs, wanted.inputs, **close)
    assert_close(got.gradients, wanted.gradients, **close)
    assert got.written == wanted.written, "which inputs count as written"
    assert got.identical == wanted.identical, "which outputs are inputs, or each other"
    made, right = tensors_in(got.outputs), tensors_in(wanted.outputs)
    assert [strides(t) for t in made] == [strides(t) for t in right], "strides of outputs"
    assert [t.requires_grad for t in made] == [t.requires_grad for t in right]
    before, after = ([(t.shape, strides(t), t.storage_offset()) for t in s.inputs] for s in (wanted, got))
    assert after == before, "sizes, strides and offsets of inputs"
    assert sharing(got.inputs + made) == sharing(wanted.inputs + right), "who shares memory"


def check_program(program: Program) -> None:
    def compile_(function: Callable[..., Any], **more: Any) -> Any:
        return compiled(function, program.dynamic, more.pop("fullgraph", program.fullgraph), **program.options, **more)

    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of optimizers, and of what is deprecated
        torch.manual_seed(0)
        wanted = program.run(lambda function, **_: function)
        for _ in range(2):  # what was called before may be called otherwise from then on
            torch.manual_seed(0)
            check_results(program, program.run(compile_), wanted)


def check_results(program: Program, got: Any, wanted: Any) -> None:
    close = {} if program.tolerance is None else {"rtol": program.tolerance, "atol": program.tolerance}
    numbers, right = tree_leaves(got), tree_leaves(wanted)
    assert len(numbers) == len(right)
    for one, other in zip(numbers, right):
        if isinstance(other, torch.Tensor):
            assert_close(one, other, **close)
            assert strides(one) == strides(other)
        else:
            assert one == other
