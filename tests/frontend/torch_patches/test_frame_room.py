"""Functions with room for frames call others at any depth without fresh memory."""

import resource
import sys
import traceback

import pytest
from bascule.frontend.torch_patches.frame_room import SLOTS, with_room

CALLS = 400


def leaf(x: int) -> int:
    return x


def loop(depth: int) -> int:
    """Faults of a loop of calls, at a depth of frames."""
    if depth:
        return loop(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for k in range(CALLS):
        leaf(k)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def faults_by_depth() -> list[int]:
    return [loop(depth) for depth in range(300)]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="frames of CPython's")
def test_calls_at_any_depth_touch_no_fresh_memory():
    with_room(faults_by_depth)()  # the chunk's first touch, and what the loop itself imports
    assert max(with_room(faults_by_depth)()) < CALLS // 4


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="where chunks end is a version's own")
def test_without_room_some_depth_touches_some_at_each_call():
    assert max(faults_by_depth()) >= CALLS


def test_it_is_called_as_it_is():
    @with_room
    def named(a: int, *rest: int, b: int = 2, **more: int) -> tuple[object, ...]:
        """Says what it was given."""
        return a, rest, b, more

    assert named(1, 3, b=4, c=5) == (1, (3,), 4, {"c": 5})
    assert (named.__name__, named.__doc__) == ("named", "Says what it was given.")
    assert named.__code__.co_stacksize == SLOTS


def test_errors_and_their_frames_pass():
    @with_room
    def fails() -> None:
        raise KeyError("here")

    with pytest.raises(KeyError) as raised:
        fails()
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names[-2:] == ["roomy", "fails"]
    frame = raised.value.__traceback__
    while frame.tb_next:
        frame = frame.tb_next
    assert frame.tb_frame.f_back is None or frame.tb_frame.f_back.f_code.co_name


def test_it_nests():
    @with_room
    def down(depth: int) -> int:
        return 0 if depth == 0 else 1 + down(depth - 1)

    assert down(50) == 50
