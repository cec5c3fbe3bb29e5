"""The garbage collector is paused while compiling, and only then."""

import gc
from threading import Barrier, Thread

import pytest

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
