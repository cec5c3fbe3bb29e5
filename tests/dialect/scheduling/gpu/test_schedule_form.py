"""The schedule of a kernel for a GPU as an attribute: what is written is what is read, and what does not read is refused."""

import pytest
from bascule.dialect.errors import UserError
from bascule.dialect.ir.shapes import size_map
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.schedule_form import (
    DomainSchedule,
    KernelSchedule,
    LoopSchedule,
    from_attribute,
    to_attribute,
)

from tests.dialect.small_kernels import mlir, ranges, row_sums, schedule

__all__ = ["mlir"]


def plan(**changes) -> KernelSchedule:
    inner = LoopSchedule((1, 0), 16, 3, held=True)
    loop = LoopSchedule((0,), 129, 2, 1, "last", 4, kept=5, descriptors=(1,), loops=(inner,))
    domain = DomainSchedule("row", (0,), (1,), (2,), loops=(loop,))
    return KernelSchedule(
        [domain], **({"group": False, "warps": 4, "stages": 3, "index_bits": 32, "capability": 90} | changes)
    )


def sizes(text: str) -> list[ir.AffineExpr]:
    return list(ir.Attribute.parse(ranges(text).removeprefix("ranges = ")).value.results)


def test_what_is_written_is_read():
    own = plan(resident=2, cluster=8)
    assert from_attribute(schedule(row_sums(5, 129), to_attribute(own))) == own


def test_keys_at_their_defaults_are_left_out():
    keys = {entry.name for entry in to_attribute(plan())}
    assert keys == {"target", "kind", "order", "axes", "tile", "loops", "warps", "stages", "index_bits", "capability"}


def test_a_group_has_parts():
    own = plan(group=True)
    attribute = to_attribute(own)
    assert (attribute["kind"].value, len(attribute["parts"])) == ("group", 1)
    assert from_attribute(schedule(row_sums(5, 129), attribute)) == own


def test_what_decides_on_narrow_indices_is_a_map():
    own = plan(index_bits=64, narrow=size_map(sizes("s0 * 7")))
    assert from_attribute(schedule(row_sums(5, 129), to_attribute(own))).narrow == own.narrow


@pytest.mark.parametrize(
    "text, step, held, walks",
    [
        ("129", 128, False, True),
        ("128", 128, False, False),
        ("129", 128, True, False),
        ("129", 1, False, False),
        ("s0", 128, False, True),
        ("3, 43", 128, False, True),
        ("0", 128, False, False),
    ],
)
def test_loops_that_walk(text, step, held, walks):
    assert LoopSchedule((0,), step, held=held).walks(sizes(text)) == walks


def test_a_schedule_without_a_key_is_refused():
    kernel = row_sums(5, 129)
    with pytest.raises(UserError, match="has no schedule"):
        from_attribute(kernel)
    entries = {entry.name: entry.attr for entry in to_attribute(plan()) if entry.name != "warps"}
    with pytest.raises(UserError, match="has no 'warps'"):
        from_attribute(schedule(kernel, ir.DictAttr.get(entries)))
    entries["target"] = ir.StringAttr.get("cpu")
    with pytest.raises(UserError, match="for target 'cpu'"):
        from_attribute(schedule(kernel, ir.DictAttr.get(entries)))
