"""Forms of loops: equal where they do the same with their buffers."""

import pytest
from bascule.dialect.analysis.bodies.nested_loops import inner_loops
from bascule.dialect.analysis.bodies.structural_equality import form_of

from tests.dialect.analysis.small_kernels import load, loop, store

BUFFERS = {"x": "memref<7xf32>", "y": "memref<7xf32>", "z": "memref<7xf32>", "w": "memref<7xf32>", "v": "memref<8xf32>"}


def step(x: str, y: str, out: str) -> str:
    """out = x - y, over 7 elements."""
    reads = load("a", x, "k") + load("b", y, "k")
    return loop("", "k", "7", f"{reads}\n      %c = arith.subf %a, %b : f32{store('c', out, 'k')}")


STEP = step("x", "y", "x")
BOUND = "\n    %three = arith.constant 3 : index"
GUARDED = loop(
    "",
    "k",
    "7",
    "\n      %in = arith.cmpi slt, %k, %three : index\n      scf.if %in {"
    + load("a", "x", "k")
    + store("a", "y", "k")
    + "\n      } else {"
    + load("b", "y", "k")
    + store("b", "x", "k")
    + "\n      }",
)


@pytest.fixture
def forms(kernel):
    """The forms and the buffers of two loops, and the function's memrefs, which are those looked for without the first `but`."""

    def make(first: str, second: str, but: int = 0):
        op = kernel(BUFFERS, {"i": "1"}, BOUND + first + second)
        memrefs = list(op.parent.regions[0].blocks[0].arguments)[1:]
        return *(form_of(inner, memrefs[but:]) for inner in inner_loops(op)), memrefs

    return make


def test_loops_over_other_buffers_are_equal(forms):
    (form, used), (other, others), (x, y, z, w, _) = forms(STEP, step("w", "z", "w"))
    assert form == other
    assert (used, others) == ([x, y], [w, z])  # as they are met


def test_which_uses_are_of_one_buffer_matters(forms):
    (form, used), (other, others), (x, y, z, *_) = forms(STEP, step("x", "y", "z"))
    assert form != other
    assert (used, others) == ([x, y], [x, y, z])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%a, %b", "%b, %a"),
        ("arith.subf", "arith.divf"),
        ("(7)", "(8)"),
        ("arith.subf %a, %b", "arith.subf %a, %b fastmath<nnan>"),
        ("%y[%k] : !y", "%v[%k] : !v"),  # of 8 elements, not 7
    ],
)
def test_what_makes_loops_differ(forms, old, new):
    (form, _), (other, _), _ = forms(STEP, STEP.replace(old, new))
    assert form != other


def test_what_is_no_buffer_is_equal_to_itself_alone(forms):
    (form, used), (other, _), (_, y, *_) = forms(STEP, STEP, but=1)
    assert (form, used) == (other, [y])
    (form, _), (other, _), _ = forms(STEP, step("w", "y", "w"), but=1)
    assert form != other


def test_each_branch_of_a_condition_has_its_own_ops(forms):
    joined = GUARDED.replace("\n      } else {", "")
    (form, used), (other, others), (x, y, *_) = forms(GUARDED, joined)
    assert form != other
    assert used == others == [x, y]
    (form, _), (other, _), _ = forms(GUARDED, GUARDED.replace("%three", "%i"))
    assert form != other
