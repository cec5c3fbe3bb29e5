"""Custom operators whose gradient is a formula in Python that looks at data, as loops over experts do: such a formula cannot be traced.

The operator itself is one node of a graph, whatever it does inside. So is the formula then: the operator `bascule.gradient_of`, which runs it
when the graph runs, on the tensors that the context of autograd had. Without it Dynamo leaves each such operator, and the code around it,
outside of graphs. Where the gradients of an operator are declared (`frontend/aot/declared_gradients.py`), these are in its place.

How PyTorch keeps formulas is private to it. Checked on torch 2.11 to 2.14.
"""

import json
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch.fx import Graph
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from bascule.compat.graphs.tracing import active_fake_mode
from bascule.compat.operators.custom_operators import OPDEFS
from bascule.compat.operators.custom_operators import register_fake as register
from bascule.compat.operators.schemas import OpOverload
from bascule.compat.tensors.fake_tensors import DataDependentOutputException, DynamicOutputShapeException
from bascule.compat.tensors.layouts import is_non_overlapping_and_dense_or_false, make_contiguous_strides_for

from .patch import Patch

LOOKS_AT_DATA = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
INPUTS = "_bascule_inputs"  # of a context: sizes and strides of the operator's tensors, None for what is none
GIVEN = "_bascule_given"  # of a context: what the operator was given, a tensor as a weak reference; None: not in places alone
LOOKS = "bascule_looks_at_data"  # in the meta of a node: its operator may wait for the device to look at data
TENSOR = "tensor"  # in `constants`: stands for the next of the tensors
PLAIN = (int, float, bool, str, type(None))


@dataclass(frozen=True)
class Formula:
    """The gradient of the custom operator `operator`, as its author wrote it: `formula(ctx, *gradients)`; where it looks at data while it is
    traced, it is traced as one operator."""

    operator: str
    formula: Callable[..., Any]

    def __call__(self, ctx: Any, *gradients: torch.Tensor | None) -> Any:
        given = [x for x in (*ctx.saved_tensors, *gradients) if isinstance(x, torch.Tensor)]
        versions = [x._version for x in given]
        try:
            with _no_numbers_from_data():
                return self.formula(ctx, *gradients)
        except LOOKS_AT_DATA:
            if versions != [x._version for x in given] or not self._told(ctx):
                raise
        return self._as_one_operator(ctx, gradients)

    def _told(self, ctx: Any) -> bool:
        """Whether all that the formula may read of the context can be written down."""
        inputs = getattr(ctx, INPUTS, None)
        return inputs is not None and all(isinstance(x, (torch.Tensor, *PLAIN)) for x in _attributes(ctx).values())

    def _as_one_operator(self, ctx: Any, gradients: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        attributes = _attributes(ctx)
        values = [*ctx.saved_tensors, *gradients, *attributes.values()]
        needed = [x is not None and needs for x, needs in zip(getattr(ctx, INPUTS), ctx.needs_input_grad)]
        wanted = [x for x, needs in zip(getattr(ctx, INPUTS), needed) if needs]
        constants = [[TENSOR] if isinstance(x, torch.Tensor) else x for x in values]
        told = {
            "operator": self.operator,
            "saved": len(ctx.saved_tensors),
            "attributes": list(attributes),
            "values": constants,
            "needed": needed,
            "dimensions": [len(size) for size, _, _ in wanted],
            "dtypes": [str(dtype).removeprefix("torch.") for _, _, dtype in wanted],
            "arguments": _arguments(getattr(ctx, GIVEN), values),
        }
        numbers = [number for size, stride, _ in wanted for number in (*size, *stride)]
        tensors = [x for x in values if isinstance(x, torch.Tensor)]
        made = iter(torch.ops.bascule.gradient_of(tensors, json.dumps(told, sort_keys=True), numbers))
        return tuple(next(made) if needs else None for needs in needed)


@dataclass(frozen=True)
class Setup:
    """The function that an author wrote to fill a context; the context is told of the operator's tensors too."""

    formula: Callable[..., Any]

    def __call__(self, ctx: Any, inputs: Sequence[Any], output: Any, **others: Any) -> Any:
        if not any(isinstance(x, list | tuple) for x in inputs):
            setattr(ctx, INPUTS, [_shape(x) if isinstance(x, torch.Tensor) else None for x in inputs])
            known = [weakref.ref(x) if isinstance(x, torch.Tensor) else x for x in inputs]
            setattr(ctx, GIVEN, None if others.get("keyword_only_inputs") else known)
        return self.formula(ctx, inputs=inputs, output=output, **others)


def _arguments(given: list[Any] | None, values: list[Any]) -> list[Any] | None:
    """An argument of the operator each: `[i]` for the tensor that is one of the `values` of its gradient, numbers and the like as they are. None
    where an argument is neither."""
    found = list[Any]()
    for argument in given or ():
        if isinstance(argument, weakref.ref):
            argument = next(([i] for i, x in enumerate(values) if x is argument()), argument)
        if not isinstance(argument, (list, *PLAIN)):
            return None
        found.append(argument)
    return found or None


def _shape(x: torch.Tensor) -> tuple[Sequence[Any], Sequence[Any], torch.dtype]:
    """Sizes, strides and dtype of a gradient of `x`."""
    dense = is_non_overlapping_and_dense_or_false(x)
    return tuple(x.shape), tuple(x.stride() if dense else make_contiguous_strides_for(x.shape)), x.dtype


@contextmanager
def _no_numbers_from_data() -> Iterator[None]:
    """Under the fake mode at work, reading a number from a tensor raises, though Dynamo may allow it (`fullgraph=True`)."""
    mode = active_fake_mode()
    if mode is None or mode.shape_env is None:
        yield
        return
    none = replace(mode.shape_env.settings, allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    with patch.object(mode.shape_env, "settings", none), patch.object(mode, "allow_scalar_outputs", False):
        yield


def _attributes(ctx: Any) -> dict[str, Any]:
    return {name: x for name, x in vars(ctx).items() if name not in (INPUTS, GIVEN, "needs_input_grad")}


def _make() -> None:
    for operator, definition in list(OPDEFS.items()):
        if isinstance(definition._backward_fn, Formula) or None in (
            definition._backward_fn,
            definition._setup_context_fn,
        ):
            continue
        register_fake()
        definition._backward_fn = Formula(operator, definition._backward_fn)
        definition._setup_context_fn = Setup(definition._setup_context_fn)


def _undo() -> None:
    for definition in list(OPDEFS.values()):
        if isinstance(definition._backward_fn, Formula):
            definition._backward_fn = definition._backward_fn.formula
            definition._setup_context_fn = definition._setup_context_fn.formula


opaque_gradients = Patch(_make, _undo)  # inside, formulas that look at data are traced as one operator each


_library = torch.library.Library("bascule", "DEF")
_library.define(
    "gradient_of(Tensor[] tensors, str told, SymInt[] numbers) -> Tensor[]", tags=(torch.Tag.cudagraph_unsafe,)
)


@torch.library.impl(_library, "gradient_of", "CompositeExplicitAutograd")
def _gradient_of(tensors: Sequence[torch.Tensor], told: str, numbers: Sequence[int]) -> list[torch.Tensor]:
    """The gradients that are needed, fresh tensors of the sizes and strides in `numbers`; where the formula has None, zeros."""
    what, values = _read(told), _values(tensors, told)
    saved, attributes = what["saved"], what["attributes"]
    end = len(values) - len(attributes)
    definition = OPDEFS[what["operator"]]
    formula = definition._backward_fn
    context = SimpleNamespace(
        saved_tensors=tuple(values[:saved]),
        needs_input_grad=tuple(what["needed"]),
        **dict(zip(attributes, values[end:])),
    )
    found = (formula.formula if isinstance(formula, Formula) else formula)(context, *values[saved:end])
    found = found if isinstance(found, tuple | list) else (found,)
    results, storages = [], {x.untyped_storage().data_ptr() for x in tensors}
    gradients = (x for x, needs in zip(found, what["needed"]) if needs)
    for x, (size, stride, dtype) in zip(gradients, _shapes(what, numbers)):
        if (
            x is None
            or (x.shape, x.stride(), x.dtype) != (size, stride, dtype)
            or x.untyped_storage().data_ptr() in storages
        ):
            made = torch.empty_strided(size, stride, dtype=dtype, device=tensors[0].device)
            x = made.zero_() if x is None else made.copy_(x)
        storages.add(x.untyped_storage().data_ptr())
        results.append(x)
    return results


@cache
def register_fake() -> None:
    """Lets `gradient_of` be traced."""
    register("bascule::gradient_of", _fake_gradient_of, _library)


def _fake_gradient_of(tensors: Sequence[torch.Tensor], told: str, numbers: Sequence[int]) -> list[torch.Tensor]:
    return [
        torch.empty_strided(size, stride, dtype=dtype, device=tensors[0].device)
        for size, stride, dtype in _shapes(_read(told), numbers)
    ]


@dataclass(frozen=True)
class GradientCall:
    """A call of `gradient_of`: the gradients of an operator's `arguments`, of those that are `needed`; None: not all are known. `gradients`: of
    its results. `shapes`: sizes, strides and dtype of each that is needed."""

    operator: str
    arguments: list[Any] | None
    gradients: list[torch.Tensor | None]
    needed: list[bool]
    shapes: list[tuple[Sequence[int], Sequence[int], torch.dtype]]


def gradient_call(tensors: Sequence[torch.Tensor], told: str, numbers: Sequence[int]) -> GradientCall:
    """The call that the arguments of `gradient_of` stand for."""
    what, values = _read(told), _values(tensors, told)
    given = what.get("arguments")
    arguments = None if given is None else [values[x[0]] if isinstance(x, list) else x for x in given]
    gradients = values[what["saved"] : len(values) - len(what["attributes"])]
    return GradientCall(what["operator"], arguments, gradients, what["needed"], list(_shapes(what, numbers)))


def mark_operators(graph: Graph) -> int:
    """Notes on each custom operator of a joint graph whose gradient looks at data that it may do so itself. Returns on how many."""
    gradients = graph.find_nodes(op="call_function", target=torch.ops.bascule.gradient_of.default)
    named = {_read(node.args[1])["operator"] for node in gradients}
    noted = 0
    for node in graph.nodes if named else ():
        if isinstance(node.target, OpOverload) and node.target._schema.name in named:
            node.meta[LOOKS] = True
            noted += 1
    return noted


@cache
def _read(told: str) -> dict[str, Any]:
    return json.loads(told)


def _values(tensors: Sequence[torch.Tensor], told: str) -> list[Any]:
    """Those that the context saved, the gradients of the results, and the others that the context has."""
    rest = iter(tensors)
    return [next(rest) if x == [TENSOR] else x for x in _read(told)["values"]]


def _shapes(told: dict[str, Any], numbers: Sequence[int]) -> Iterator[tuple[Sequence[int], Sequence[int], torch.dtype]]:
    """Sizes, strides and dtypes of the gradients that are needed."""
    rest = iter(numbers)
    for dimensions, dtype in zip(told["dimensions"], told["dtypes"]):
        size, stride = (tuple(islice(rest, dimensions)) for _ in range(2))
        yield size, stride, getattr(torch, dtype)
