"""Calls of regions while AOTAutograd traces the graph they are in: operators that nothing is known of but what they give."""

from collections.abc import Sequence
from functools import cache
from itertools import count
from operator import itemgetter
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.fx import Graph

from bascule.compat.operators.custom_operators import register_fake as register

from ..fx.graph_ends import outputs_of
from .find import Region
from .templates import Template

_library = torch.library.Library("bascule", "FRAGMENT")
_library.define("region_forward(Tensor[] tensors, SymInt[] sizes, int region) -> Tensor[]")
_library.define("region_backward(Tensor[] tensors, SymInt[] sizes, int region) -> Tensor[]")
forward_operator, backward_operator = (
    torch.ops.bascule.region_forward.default,
    torch.ops.bascule.region_backward.default,
)

_numbers = count()
_known: "WeakValueDictionary[int, Call]" = WeakValueDictionary()


class NotAlike(Exception):
    """A region is not called as it was traced: the graph is to be traced whole."""


class Call:
    """A region that the graph being traced calls by `number`, while this lives, and the trace of one like it."""

    def __init__(self, region: Region, template: Template):
        self.region, self.template, self.number = region, template, next(_numbers)
        self.seen = [_seen(x.meta["example_value"]) for x in region.operands]
        _known[self.number] = self


def called(number: int) -> Call:
    return _known[number]


def call(number: int, *operands: Any) -> tuple[torch.Tensor, ...]:
    """The results of the region of call `number`. Raises `NotAlike`."""
    this = called(number)
    if [*map(_seen, operands)] != this.seen:
        raise NotAlike("operands are other than Dynamo saw them")
    if this.template.backward is None:
        return tuple(forward_operator(*_parted(operands), number))
    return _Region.apply(number, *(operands[at] for at in this.template.order))  # type: ignore[no-any-return, no-untyped-call]


class _Region(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, number: int, *ordered: Any) -> tuple[torch.Tensor, ...]:
        template = called(number).template
        operands = [x for _, x in sorted(zip(template.order, ordered, strict=True), key=itemgetter(0))]
        tensors, sizes = _parted(operands)
        made = forward_operator(tensors, sizes, number)
        results = made[: template.results]
        ctx.number, ctx.sizes = number, sizes
        ctx.save_for_backward(*tensors, *(made[at] for at in template.saved))
        ctx.mark_non_differentiable(*(x for at, x in enumerate(results) if at not in template.differentiable))
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        template = called(ctx.number).template
        assert template.backward is not None
        given = [gradients[at] for at in template.differentiable]
        if any(x is None for x in given):
            raise NotAlike("a result of a region has no gradient")
        made = iter(backward_operator([*ctx.saved_tensors, *given], ctx.sizes, ctx.number))
        found = [None if x is None else next(made) for x in outputs_of(template.backward)]
        return None, *(found[at] for at in template.order)


def _parted(operands: Sequence[Any]) -> tuple[list[torch.Tensor], list[Any]]:
    tensors = [x for x in operands if isinstance(x, torch.Tensor)]
    return tensors, [x for x in operands if not isinstance(x, torch.Tensor)]


def _seen(x: Any) -> Any:
    """All of an operand that its trace goes by."""
    if not isinstance(x, torch.Tensor):
        return str(x)
    sizes = [str(n) for n in (*x.shape, *x.stride(), x.storage_offset())]
    return x.dtype, str(x.device), x.dim(), x.requires_grad, *sizes


def _like(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _values(graph: Graph) -> list[torch.Tensor]:
    return [_like(x.meta["val"]) for x in outputs_of(graph) if x is not None]


@cache
def register_fake() -> None:
    """Lets them be traced."""

    def backward(tensors: Sequence[torch.Tensor], sizes: Sequence[Any], region: int) -> list[torch.Tensor]:
        graph = called(region).template.backward
        assert graph is not None
        return _values(graph)

    register(
        "bascule::region_forward", lambda tensors, sizes, region: _values(called(region).template.forward), _library
    )
    register("bascule::region_backward", backward, _library)
