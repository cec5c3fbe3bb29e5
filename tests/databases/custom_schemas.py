"""Custom operators of every kind of schema, made from tables, and programs that call them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

LIBRARY = torch.library.Library("bascule_schemas", "DEF")
Made = Callable[[torch.Tensor, int], Any]

# What an operator returns, as its schema says -> what it makes of its first tensor and the number of the result.
KINDS: dict[str, Made] = {
    "Tensor": lambda x, k: x * (k + 2),
    "Tensor[]": lambda x, k: [x * (k + 2), x[:2] * (k + 3), x.new_full((3,), k) * x.sum()],
    "Tensor?": lambda x, k: x + k if k % 2 else None,
    "int": lambda x, k: k + 3,
    "SymInt": lambda x, k: x.shape[0] + k,
    "float": lambda x, k: k + 0.5,
    "bool": lambda x, k: k % 2 == 0,
    "int[]": lambda x, k: [k, k + 1],
}
RESULTS = (
    ("Tensor",),
    ("Tensor[]",),
    ("Tensor?",),
    ("int",),
    ("SymInt",),
    ("float",),
    ("bool",),
    (),
    ("Tensor", "Tensor"),
    ("Tensor[]", "int"),
    ("int", "Tensor[]"),
    ("Tensor[]", "Tensor[]"),
    ("Tensor", "Tensor[]", "Tensor"),
    ("Tensor[]", "Tensor?", "float"),
    ("Tensor", "Tensor?"),
    ("Tensor?", "Tensor"),
    ("SymInt", "Tensor", "bool"),
    ("int[]", "Tensor"),
)
# The parameters, as the schema says -> the arguments, made of two tensors.
ARGUMENTS: dict[str, Callable[[torch.Tensor, torch.Tensor], tuple[tuple, dict]]] = {
    "Tensor x": lambda x, y: ((x,), {}),
    "Tensor x, Tensor[] more": lambda x, y: ((x, [y, x + y]), {}),
    "Tensor x, Tensor?[] more": lambda x, y: ((x, [None, y, None]), {}),
    "Tensor[] xs, Tensor? none, Tensor? some": lambda x, y: (([x, y], None, y), {}),
    "Tensor x, SymInt[] sizes, *, Tensor? y=None, float scale=2.0": lambda x, y: ((x, [x.shape[0], 3]), {"y": y}),
    "Tensor x, Scalar s, ScalarType? d, Device? p, str t, bool b, float[] f": (
        lambda x, y: ((x, 3, torch.float64, torch.device("cpu"), "text", True, [0.5, 1.5]), {})
    ),
    "Tensor(a!) x": lambda x, y: ((x,), {}),
    "Tensor(a!)[] xs": lambda x, y: (([x, y],), {}),
    "Tensor x, Tensor(a!)? none, Tensor(b!)? some": lambda x, y: ((x, None, y), {}),
    "Tensor x, *, Tensor(a!) out": lambda x, y: ((x,), {"out": y}),
}


@dataclass(frozen=True)
class Schema:
    parameters: str
    results: tuple[str, ...]

    def __str__(self) -> str:
        returned = ", ".join(self.results)
        return f"({self.parameters}) -> {returned if len(self.results) == 1 else f'({returned})'}"

    @property
    def writes(self) -> bool:
        return "!" in self.parameters

    @property
    def differentiable(self) -> bool:
        """PyTorch takes a backward of operators that write to nothing, have no tensors by keyword, and return some."""
        return not self.writes and "*, Tensor" not in self.parameters and any("Tensor" in kind for kind in self.results)


SCHEMAS = [
    *(Schema("Tensor x", results) for results in RESULTS),
    *(Schema(parameters, ("Tensor",)) for parameters in ARGUMENTS if parameters != "Tensor x"),
    # PyTorch takes no others of operators that write.
    *(Schema(p, r) for p in ("Tensor(a!) x", "Tensor(a!)[] xs") for r in ((), ("Tensor", "Tensor"), ("bool",))),
]


@cache
def operator(schema: Schema) -> torch._ops.OpOverload:
    """The operator: it adds 1 to each tensor that it writes, and makes each of its results of its first tensor."""
    name = f"operator{len(LIBRARY._op_defs)}"
    LIBRARY.define(f"{name}{schema}")
    defined = getattr(torch.ops.bascule_schemas, name).default
    written = {p.name for p in defined._schema.arguments if p.alias_info is not None and p.alias_info.is_write}
    names = [p.name for p in defined._schema.arguments]

    def run(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args)) | kwargs
        for tensor in tree_leaves([given[name] for name in names if name in written]):
            if tensor is not None:
                tensor.add_(1)
        first = tree_leaves(given[names[0]])[0]
        return _one_or_all([KINDS[kind](first, k) for k, kind in enumerate(schema.results)])

    LIBRARY.impl(name, run, "CPU")
    torch.library.register_fake(defined, run, lib=LIBRARY)
    if schema.differentiable:
        torch.library.register_autograd(defined, _backward(schema), setup_context=_save_first, lib=LIBRARY)
    return defined


def _one_or_all(made: Sequence[Any]) -> Any:
    if not made:
        return None
    return made[0] if len(made) == 1 else tuple(made)


def _save_first(ctx: Any, inputs: tuple, output: Any, **_: Any) -> None:
    ctx.given = inputs
    ctx.save_for_backward(tree_leaves(inputs[0])[0])
    ctx.in_list = isinstance(inputs[0], list | tuple)


def _backward(schema: Schema) -> Callable[..., Any]:
    """The gradient of the first tensor; of the others None."""

    def backward(ctx: Any, *cotangents: Any) -> Any:
        (first,) = ctx.saved_tensors
        with torch.enable_grad():
            x = first.detach().requires_grad_()
            made = [KINDS[kind](x, k) for k, kind in enumerate(schema.results)]
        both = [
            pair
            for kind, y, g in zip(schema.results, made, cotangents, strict=True)
            if "Tensor" in kind
            for pair in zip(tree_leaves(y), tree_leaves(g), strict=True)
        ]
        pairs = [(y, g) for y, g in both if isinstance(g, torch.Tensor)]
        (found,) = torch.autograd.grad([y for y, _ in pairs], [x], [g for _, g in pairs])
        return _like(ctx.given, found)

    return backward


def _like(given: tuple, first: torch.Tensor) -> Any:
    rest = [[None] * len(x) if _are_tensors(x) else None for x in given[1:]]
    head = [first, *[None] * (len(given[0]) - 1)] if _are_tensors(given[0]) else first
    return (head, *rest) if rest else head


def _are_tensors(given: Any) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(x, torch.Tensor) for x in given)


def program(schema: Schema, *, split: bool) -> Callable[..., list[torch.Tensor]]:
    """Calls the operator on what it computes; with `split`, in a graph that is compiled in parts."""
    called, arguments = operator(schema), ARGUMENTS[schema.parameters]

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        if split:
            x = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        x, y = x.sin(), y * 2
        args, kwargs = arguments(x, y)
        made = called(*args, **kwargs)
        numbers = [n for n in tree_leaves(made) if not isinstance(n, torch.Tensor) and n is not None]
        results = [z.cos() for z in tree_leaves(made) if isinstance(z, torch.Tensor)] + [x * n for n in numbers]
        if split:
            x = torch.cond(x.sum() > 0, torch.cos, torch.sin, (x,))
        return [*results, x + 1, y + 1]

    return function
