"""Custom operators that are given objects of a class of users, which PyTorch traces, run by themselves; what is around them is compiled."""

import pytest
import torch
from torch._library import opaque_object
from torch._library.effects import EffectType

from bascule.reporting.counters import counters
from tests.frontend.against_eager import check, cut_at, leaf

# The names are new in PyTorch 2.14.
NEW = hasattr(opaque_object, "register_custom_class")
if NEW:
    from torch._custom_class_base import CustomClassBase as Base
else:
    from torch._opaque_base import OpaqueBase as Base


class Scale(Base):
    """One whose contents the graph does not know."""

    def __init__(self, factor):
        self.factor = factor


class Constant(Base):
    """One that is a constant of the graph."""

    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        return isinstance(other, Constant) and self.factor == other.factor

    def __hash__(self):
        return hash(self.factor)

    def __fx_repr__(self):
        return f"Constant({self.factor})", {"Constant": Constant}


if NEW:
    opaque_object.register_custom_class(Scale, typ="symbolic")
    opaque_object.register_custom_class(Constant, typ="constant")
else:
    opaque_object.register_opaque_type(Scale, typ="reference")
    opaque_object.register_opaque_type(Constant, typ="value")


def scaling(kind):
    """An operator whose gradient is given the object too."""

    def scaled(by: kind, x: torch.Tensor) -> torch.Tensor:
        return x * by.factor

    operator = torch.library.custom_op(f"given_objects::by_{kind.__name__.lower()}", scaled, mutates_args=())
    operator.register_fake(lambda by, x: torch.empty_like(x))

    def kept(ctx, inputs, output):
        ctx.by = inputs[0]

    operator.register_autograd(lambda ctx, gradient: (None, operator(ctx.by, gradient)), setup_context=kept)
    return operator


OPERATORS = {kind: scaling(kind) for kind in (Scale, Constant)}


@pytest.mark.parametrize("differentiated", [False, True])
@pytest.mark.parametrize("kind", OPERATORS)
def test_as_eager(kind, differentiated):
    operator, by = OPERATORS[kind], kind(3.0)
    x = leaf(3, 4) if differentiated else torch.randn(3, 4)
    records = check(lambda x: operator(by, x.sin()).exp() * 2, [x])
    assert set(cut_at(records)) == {f"given_objects.by_{kind.__name__.lower()}.default"}


def test_one_graph_for_all_objects():
    operator, x = OPERATORS[Scale], torch.randn(3, 4)
    compiled = torch.compile(lambda by: operator(by, x.sin()) + 1, backend="bascule", options={"on_error": "raise"})
    for factor in (2.0, 5.0):
        torch.testing.assert_close(compiled(Scale(factor)), x.sin() * factor + 1)
    assert counters()["graphs"] == {"compiled": 2}  # before the operator and after it


@torch.library.custom_op("given_objects::counted", mutates_args={"x"})
def counted(by: Scale, x: torch.Tensor) -> torch.Tensor:
    by.factor += 1
    x.mul_(by.factor)
    return x * 2


counted.register_fake(lambda by, x: torch.empty_like(x))


def written(by, x):
    y = x.sin()
    return counted(by, y[1:]) + y[:-1]


@torch.library.custom_op("given_objects::numbered", mutates_args=())
def numbered(by: Scale, x: torch.Tensor) -> torch.Tensor:
    by.factor += 1
    return x * by.factor


numbered.register_fake(lambda by, x: torch.empty_like(x))
numbered.register_effect(EffectType.ORDERED)


def in_order(by, x):
    return numbered(by, x) * 3 + numbered(by, x * 2)


@pytest.mark.parametrize("function", [written, in_order])
def test_operators_that_write_or_have_effects(function):
    mine, theirs, x = Scale(2.0), Scale(2.0), torch.randn(4, 3)
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    torch.testing.assert_close(compiled(mine, x), function(theirs, x))
    assert mine.factor == theirs.factor
