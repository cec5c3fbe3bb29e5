"""The garbage collector is paused while compiling, and only then."""

import gc
import weakref
from threading import Barrier, Thread

import pytest

from bascule.compiler import gc_pause
from bascule.compiler.gc_pause import collections_paused


def test_paused_inside_and_as_it_was_outside():
    assert gc.isenabled()
    with collections_paused():
        assert not gc.isenabled()
        with collections_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_resumes_it():
    with pytest.raises(KeyError), collections_paused():
        raise KeyError
    assert gc.isenabled()


def test_a_users_choice_to_have_it_off_stays():
    gc.disable()
    try:
        with collections_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_last_of_several_threads_resumes_it():
    both, inside = Barrier(2), []

    def compile_something():
        with collections_paused():
            both.wait()
            inside.append(gc.isenabled())
            both.wait()

    threads = [Thread(target=compile_something) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == [False, False]
    assert gc.isenabled()


def full_collections() -> int:
    return gc.get_stats()[2]["collections"]


@pytest.fixture
def one_is_due(monkeypatch: pytest.MonkeyPatch):
    """A full collection is due as soon as what is old has grown by a quarter; nothing is frozen."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    gc.collect()
    thresholds = gc.get_threshold()
    gc.set_threshold(thresholds[0], thresholds[1], 1)
    monkeypatch.setattr(gc_pause, "_put_off", -1)
    yield
    gc.set_threshold(*thresholds)
    if frozen:
        gc.freeze()


def much() -> list[list[int]]:
    return [[] for _ in range(len(gc.get_objects()))]


def young_ones(count: int) -> None:
    for _ in range(count):
        gc.collect(1)
    kept = [[] for _ in range(2 * gc.get_threshold()[0])]  # as many as have the collector look
    del kept


def test_a_full_collection_is_put_off_once(one_is_due):
    before, kept = full_collections(), []
    gc.collect(1)
    with collections_paused():
        kept.append(much())
    young_ones(0)
    assert full_collections() == before
    young_ones(2)
    assert full_collections() == before + 1
    gc.collect(1)
    with collections_paused():
        kept.append(much())
    young_ones(0)
    assert full_collections() == before + 1
    gc.collect(1)
    with collections_paused():
        kept.append(much())
    young_ones(0)
    assert full_collections() == before + 2  # which was put off already


def test_what_the_program_froze_stays_frozen(one_is_due):
    gc.freeze()
    with collections_paused():
        pass
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    assert frozen > 0


def test_what_compiling_leaves_in_cycles_is_collected():
    class Cycle:
        pass

    with collections_paused():
        cycle = Cycle()
        cycle.itself, gone = cycle, weakref.ref(cycle)
        del cycle
        assert gone() is not None
    assert gone() is None
