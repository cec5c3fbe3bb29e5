"""Guards around the bindings, and what a failed pass is said to have been: whose, where, after which others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
from bascule.dialect.failures.culprits import failure_of
from bascule.dialect.failures.guards import UsedError
from bascule.dialect.ir import context
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass, Pipeline, UpstreamPass

TEXT = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    %v = math.exp %e : f32
    "bascule.yield"(%v) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@dataclass(frozen=True)
class Does(Pass):
    """Calls a function."""

    name: ClassVar[str] = "does"
    what: Callable[[ir.Module], None] = lambda module: None

    def run(self, module):
        self.what(module)


def fails(*stages, verify=None):
    """The error of stages, functions among them, on `TEXT`."""
    passes = tuple(Does(stage) if callable(stage) else UpstreamPass(stage) for stage in stages)
    with context():
        module = ir.Module.parse(TEXT)
        with pytest.raises(Exception) as caught:  # whatever it is: each test says which
            Pipeline(passes).run(module, verify=verify)
    return caught.value


def named(module, name):
    return next(op for op in ops_in(module.operation) if op.name == name)


def breaks(module):
    named(module, "bascule.compute").attributes["ranges"] = ir.AffineMapAttr.get(ir.AffineMap.get_constant(5))


@pytest.mark.parametrize("name", ["tensor.extract", "math.exp", "bascule.compute"])
@pytest.mark.parametrize("typed", [False, True])
def test_an_op_that_is_used_is_not_erased(name, typed):
    def erases(module):
        op = named(module, name)
        (op.opview if typed else op).erase()

    error = fails(erases)
    assert isinstance(error, UsedError) and f"'{name}' is erased" in str(error)
    assert failure_of(error).source == error.location and error.location.startswith("-:")


def test_an_op_that_is_not_used_is():
    with context():
        module = ir.Module.parse(TEXT)
        compute, end = named(module, "bascule.compute"), named(module, "func.return")
        end.operands[0] = named(module, "func.func").regions[0].blocks[0].arguments[0]
        compute.erase()
        assert "bascule.compute" not in str(module)


def test_an_argument_that_is_used_is_not_erased():
    error = fails(lambda module: named(module, "func.func").regions[0].blocks[0].erase_argument(0))
    assert isinstance(error, UsedError) and "'tensor.extract' at -:5:10 uses it" in str(error)


def test_an_op_that_is_used_is_not_left_detached():
    error = fails(lambda module: named(module, "math.exp").detach_from_parent() and None)
    assert isinstance(error, UsedError) and "'math.exp' is detached and 'bascule.yield' at -:7:5 uses it" in str(error)
    assert error.location == "-:6:10" and failure_of(error).culprit.startswith("your pass 'does'")


def test_an_op_may_be_detached_and_put_elsewhere_or_erased():
    def moves(module):
        op, user = named(module, "math.exp"), named(module, "bascule.yield")
        ir.InsertionPoint(user).insert(op.detach_from_parent())
        for _ in range(2):
            ir.InsertionPoint(user).insert(extra := op.clone())
            extra.detach_from_parent()
        extra.erase()

    with context():
        module = ir.Module.parse(TEXT)
        before = str(module)
        Pipeline((Does(moves),)).run(module)
        assert str(module) == before


def test_what_a_walk_raises_keeps_its_type_and_place():
    def raises(op):
        if op.name == "math.exp":
            raise KeyError(op.name)
        return ir.WalkResult.ADVANCE

    error = fails(lambda module: module.operation.walk(raises))
    assert isinstance(error, KeyError)
    assert failure_of(error).source == "-:6:10"


def test_the_place_is_that_of_the_op_at_hand_unless_it_is_erased():
    def raises(module):
        for op in reversed(ops_in(module.operation)):
            if op.name in ("func.return", "bascule.yield", "math.exp"):
                op.erase()
        raise KeyError("done")

    error = fails(raises)
    assert isinstance(error, KeyError) and failure_of(error).source == "-:1:1"


def test_passes_from_outside_are_verified_after():
    error = fails(breaks, "cse")
    assert isinstance(error, ir.MLIRError)
    failure = failure_of(error)
    assert failure.left and failure.foreign and failure.number == 0
    assert "your pass 'does' (" in failure.told() and "test_culprits.py:" in failure.told()


def test_ir_that_nobody_verified_names_who_ran_before():
    error = fails("cse", breaks, "func.func(loop-invariant-code-motion)", "inline", verify=False)
    assert failure_of(error).culprit.startswith("MLIR's pass")
    assert len(failure_of(error).before) == 1 and "your pass 'does'" in failure_of(error).told()


def test_what_ran_well_before_is_told_as_a_suspect():
    def raises(module):
        raise KeyError

    failure = failure_of(fails("cse", lambda module: None, raises))
    assert failure.number == 2 and len(failure.before) == 1
