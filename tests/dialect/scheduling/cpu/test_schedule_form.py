"""The schedule of a kernel for a CPU as an attribute: what is written is what is read, and what does not read is refused."""

import pytest
from bascule.dialect.errors import UserError
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.schedule_form import (
    REGISTERS,
    KernelSchedule,
    LoopSchedule,
    Tasks,
    from_attribute,
    to_attribute,
)

from tests.dialect.small_kernels import copied, mlir, schedule

__all__ = ["mlir"]

TASKS = Tasks(blocked=1, block=96, serial=(0, 2), across=2, rows=16, grain=37, tile=REGISTERS)
OWN = KernelSchedule(
    LoopSchedule(((0,), (1, 2), (4,)), 1, 32, TASKS),
    (LoopSchedule(((0, 1),), 0, 16, prefetch=8192), LoopSchedule(joins=0), LoopSchedule()),
)


def test_what_is_written_is_read():
    assert from_attribute(schedule(copied(7, 13), to_attribute(OWN))) == OWN


def test_keys_that_are_needed_only():
    keys = [{entry.name for entry in ir.DictAttr(loop)} for loop in to_attribute(OWN)["loops"]]
    assert keys == [{"groups", "vector", "lanes", "prefetch"}, {"joins"}, {"groups", "vector", "lanes"}]
    plain = KernelSchedule(LoopSchedule(((0,),), 0, 8, Tasks(0, 64)), ())
    assert {entry.name for entry in ir.DictAttr(to_attribute(plain)["domain"])} == {
        *("groups", "vector", "lanes", "blocked", "block", "serial", "grain")
    }


def test_what_does_not_read_is_refused():
    op = copied(7, 13)
    with pytest.raises(UserError, match="this kernel has no schedule"):
        from_attribute(op)
    entries = {entry.name: entry.attr for entry in to_attribute(OWN)}
    with pytest.raises(UserError, match="for target 'cuda', not 'cpu'"):
        from_attribute(schedule(op, ir.DictAttr.get(entries | {"target": ir.StringAttr.get("cuda")})))
    del entries["loops"]
    with pytest.raises(UserError, match="does not read"):
        from_attribute(schedule(op, ir.DictAttr.get(entries)))
    entries |= {"loops": ir.ArrayAttr.get([]), "domain": ir.DictAttr.get({"vector": ir.UnitAttr.get()})}
    with pytest.raises(UserError, match="does not read"):
        from_attribute(schedule(op, ir.DictAttr.get(entries)))
