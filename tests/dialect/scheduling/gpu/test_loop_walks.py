"""Loops of a GPU program that are walked together, and those that are not."""

from collections.abc import Callable

import pytest
from bascule.dialect.scheduling.gpu.domains import Domain
from bascule.dialect.scheduling.gpu.machine import H200
from bascule.dialect.scheduling.gpu.schedule_form import LoopSchedule

from tests.dialect.small_kernels import body_of, load, loop, store

BUFFERS = {"x": "memref<4x65536xf32>", "y": "memref<4x65536xf32>", "z": "memref<4xf32>"}
LONG = "65536"


@pytest.fixture
def plans(kernel) -> Callable[[str], list[LoopSchedule]]:
    def make(body: str) -> list[LoopSchedule]:
        made = body_of(kernel(BUFFERS, {"i": "4"}, body))
        domain = Domain(made, made.root, H200)
        return domain.plan(dict.fromkeys(domain.inner, 1024))

    return make


def reduce(name: str, buffer: str, of: str = "", kind: str = "sum") -> str:
    scaled = f"\n      %e = arith.mulf %a, %{of} : f32" if of else ""
    return loop(name, "k", LONG, load("a", buffer, "i", "k") + scaled, "%e" if of else "%a", kind)


def test_reductions_of_one_row_walk_together(plans):
    together = plans(reduce("s", "x") + reduce("m", "x", kind="max"))
    assert [plan.walk for plan in together] == [0, 0]
    apart = plans(reduce("s", "x") + reduce("m", "y"))
    assert [plan.walk for plan in apart] == [0, 1]


def test_what_needs_another_walks_after_it(plans):
    first, second = plans(reduce("s", "x") + reduce("t", "x", of="s"))
    assert (first.walk, second.walk) == (0, 1)
    assert (first.evict, second.evict) == ("last", "first")


def test_a_loop_is_walked_that_is_longer_than_its_step(kernel):
    made = body_of(kernel(BUFFERS, {"i": "s0"}, reduce("s", "x") + store("s", "z", "i")))
    (row,) = made.loops
    assert LoopSchedule([0], step=1024).walks(row.sizes)
    assert not LoopSchedule([0], step=65536).walks(row.sizes)
    assert not LoopSchedule([0], step=1).walks(row.sizes)
    assert not LoopSchedule([0], step=1024, held=True).walks(row.sizes)
    assert LoopSchedule([0], step=2).walks(made.root.sizes)  # its length is not known
