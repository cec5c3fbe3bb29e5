"""Whether two runs of a graph computed the same numbers, where it makes its inputs' rounding errors large.

What rounding does to a result is measured: how far the graph's operators are from the same ones in double precision.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from ..compat.operators.schemas import HigherOrderOperator, OpOverload
from ..compat.tensors.pytree import tree_map
from ..dialect.interpreter import relative_errors, tolerance_of
from ..dialect.interrupts import pass_on
from .compare_results import copied, differences, tensors_of

WIDE = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64}
WIDE |= {torch.complex64: torch.complex128}
FACTOR = 10  # between errors of two ways to compute the same: another order of additions, other approximations
MOVED = 3  # runs of the operators with inputs that are moved by a rounding error: one run may be right by chance


def disagreements(gm: GraphModule, inputs: Sequence[Any], wanted: Sequence[Any], got: Sequence[Any]) -> list[str]:
    """A line for each tensor or number of `got`, the results and then the inputs as they are after a run for `inputs`, that is another than
    in `wanted`, where the operators of `gm` have left the same.

    Where that is more than `differences` lets pass, both are compared with a run in double precision. Errors of both are put in order, the
    largest first: each of `got` may have `FACTOR` times the error that the operators have at the same rank. NaN equals NaN.
    """
    expected, found = tensors_of(wanted), tensors_of(got)
    if len(expected) != len(found):
        return list(differences(expected, found))
    told = {n: text for n, (a, b) in enumerate(zip(expected, found)) for text in differences([a], [b])}
    same = {n for n in told if (expected[n].dtype, expected[n].shape) == (found[n].dtype, found[n].shape)}
    if same:
        precise = _results(_Wide(gm).run, [_changed(x, _wide) for x in inputs])
        runs = [expected, *(_results(gm, _moved(inputs, seed)) for seed in range(MOVED))]
        for n in same:
            errors = [relative_errors(precise[n], run[n]) for run in runs if run[n].shape == precise[n].shape]
            own = torch.stack(errors).amax(0)
            its = relative_errors(precise[n], found[n])
            allowed = own.flatten().sort().values * FACTOR + tolerance_of(found[n].dtype)
            if (its.flatten().sort().values <= allowed).all():
                del told[n]
            else:
                told[n] += f"; from double precision it is {its.max():.1e} away, its operators are {own.max():.1e}"
    return [text.replace("result 0", f"result {n}") for n, text in told.items()]


def in_double(gm: GraphModule, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What the operators of `gm` compute in double precision of `inputs`, which stay as they are; and the inputs as they leave them."""
    given = [_changed(x, _wide) for x in inputs]
    return [*_Wide(gm).run(*given)], given


def _results(run: Any, inputs: list[Any]) -> list[torch.Tensor]:
    return tensors_of([*run(*inputs), *inputs])


def _wide(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return WIDE.get(value, value)
    return value.to(WIDE[value.dtype]) if isinstance(value, torch.Tensor) and value.dtype in WIDE else value


def _changed(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A copy with the same strides, overlapping ones too, of which `change` has made the elements."""
    if not isinstance(value, torch.Tensor) or value.dtype not in WIDE:
        return copied(value)
    elements = torch.empty(0, dtype=value.dtype, device=value.device).set_(value.detach().untyped_storage())
    return change(elements.clone()).as_strided(value.shape, value.stride(), value.storage_offset())


def _moved(inputs: Sequence[Any], seed: int) -> list[Any]:
    """Copies of `inputs`, each number moved by as much as rounding may."""
    generator = torch.Generator().manual_seed(seed)

    def moved(x: torch.Tensor) -> torch.Tensor:
        signs = torch.randint(0, 2, x.shape, generator=generator).to(x.device) * 2 - 1
        return (_wide(x) * (1 + signs * torch.finfo(x.dtype).eps)).to(x.dtype)

    return [_changed(x, moved) for x in inputs]


class _Wide(Interpreter):
    """Runs the operators in double precision; those that cannot, that draw numbers or look at bits, as they are."""

    def run_node(self, n: Node) -> Any:
        if n.op != "call_function":
            return tree_map(_wide, super().run_node(n)) if n.op == "get_attr" else super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if not _as_it_is(n):
            try:
                return tree_map(_wide, n.target(*tree_map(_wide, args), **tree_map(_wide, kwargs)))
            except RuntimeError as error:  # there is none in double precision
                pass_on(error)
        given = {x: _narrow(self.env[x], x.meta.get("val")) for x in n.all_input_nodes}
        args, kwargs = torch.fx.node.map_arg((n.args, n.kwargs), given.__getitem__)
        result = tree_map(_wide, n.target(*args, **kwargs))
        if isinstance(n.target, OpOverload) and n.target._schema.is_mutable:
            for x, narrow in given.items():
                if isinstance(narrow, torch.Tensor) and narrow is not self.env[x]:
                    self.env[x].copy_(narrow)
        return result


def _as_it_is(node: Node) -> bool:
    target = node.target
    drawn = torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())
    return drawn or target is torch.ops.aten.view.dtype or isinstance(target, HigherOrderOperator)


def _narrow(value: Any, told: Any) -> Any:
    fits = isinstance(value, torch.Tensor) and isinstance(told, torch.Tensor)
    return value.to(told.dtype) if fits else value
