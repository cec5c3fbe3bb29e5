"""A product's measured schedule: from a kernel's, as an attribute and as JSON, and into a kernel's again."""

from dataclasses import replace

import pytest
from bascule.dialect.errors import UserError
from bascule.dialect.ir.attribute_names import TUNED_PRODUCT
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.contractions import contraction
from bascule.dialect.scheduling.gpu.machine import H200
from bascule.dialect.scheduling.gpu.planner import cuda_schedule
from bascule.dialect.scheduling.gpu.schedule_form import from_attribute
from bascule.dialect.scheduling.gpu.tuned_products import ProductSchedule, tuned_product

from tests.dialect.scheduling.gpu.test_contractions import linear, two
from tests.dialect.small_kernels import domain_of, indexing_of, mlir, row_sums, schedule

__all__ = ["mlir"]

OTHER = ProductSchedule((32, 64), 32, 8, 2, 16, (0,))
GROUPS = ProductSchedule((128, 256), 64, 8, 4, 8, (0, 1), 132, 2)


def scheduled(op):
    schedule(op, cuda_schedule(op, H200, indexing_of(op)))
    return from_attribute(op)


def sum_of(op):
    (found,) = (
        view.operation for view in op.regions[0].blocks[0].operations if view.operation.name == "bascule.reduce"
    )
    return found


def test_a_kernels_schedule_has_one():
    own = scheduled(linear(4096, 4096, 4096))
    found = ProductSchedule.of(own)
    assert found == ProductSchedule((128, 256), 64, 8, 4, 8, (0, 1))
    assert str(found) == "128 x 256 x 64, 8 warps, 4 stages, groups of 8, descriptors"
    assert ProductSchedule.of(found.applied(own)) == found
    assert ProductSchedule.of(scheduled(two(4096, 64, 4096, same=True))) is None
    assert ProductSchedule.of(scheduled(row_sums(64, 64))) is None


def test_another_one_is_applied_to_a_copy():
    own = scheduled(linear(4096, 4096, 4096))
    assert ProductSchedule.of(OTHER.applied(own)) == OTHER
    assert ProductSchedule.of(own) != OTHER


def test_registers_for_two_programs_are_asked_for_with_small_tiles_alone():
    own = replace(scheduled(linear(4096, 4096, 4096)), resident=2)
    assert OTHER.applied(own).resident == 2 and ProductSchedule((128, 256), 64, 8, 4, 8).applied(own).resident == 0


def test_attributes_and_json_are_read_as_they_were_written():
    op = sum_of(linear(64, 64, 64))
    assert tuned_product(op) is None
    op.attributes[TUNED_PRODUCT] = ir.UnitAttr.get()
    assert tuned_product(op) is None
    op.attributes[TUNED_PRODUCT] = OTHER.attribute()
    assert tuned_product(op) == OTHER == ProductSchedule.from_json(OTHER.to_json())
    op.attributes[TUNED_PRODUCT] = GROUPS.attribute()
    assert tuned_product(op) == GROUPS == ProductSchedule.from_json(GROUPS.to_json())
    assert str(GROUPS).endswith("descriptors, tile after tile, 2 warp groups beside one that loads")


@pytest.mark.parametrize(
    "text",
    ["{}", "{step = 3 : i64}", "{step = 1, warps = 1, stages = 1, group = 1, tile = array<i64: 3>, descriptors = 1}"],
)
def test_what_is_no_schedule_is_refused_at_its_line(text):
    op = sum_of(linear(64, 64, 64))
    op.attributes[TUNED_PRODUCT] = ir.Attribute.parse(text)
    with pytest.raises(UserError, match="is no schedule of a product") as caught:
        tuned_product(op)
    assert "a unit" in caught.value.hint


@pytest.mark.parametrize(("element", "wanted"), [("bf16", [0]), ("f32", [])])
def test_the_plan_of_a_measured_product(element, wanted):
    """Of the descriptors those that there can be."""
    op = linear(4096, 4096, 4096, element)
    sum_of(op).attributes[TUNED_PRODUCT] = OTHER.attribute()
    plan = contraction(domain_of(op))
    assert (list(plan.tile), plan.loops[0].step, plan.warps, plan.stages, plan.group) == ([32, 64], 32, 8, 2, 16)
    assert list(plan.loops[0].descriptors) == wanted


def test_of_two_that_walk_together_none_is_taken():
    op = two(4096, 1024, 4096, same=True)
    for view in op.regions[0].blocks[0].operations:
        if view.operation.name == "bascule.reduce":
            view.operation.attributes[TUNED_PRODUCT] = OTHER.attribute()
    assert list(contraction(domain_of(op)).tile) == [128, 128]
