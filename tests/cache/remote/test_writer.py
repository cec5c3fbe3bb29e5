"""Writing beside the program: in order, within bounds, whatever fails."""

import os
import threading
import time

import pytest

import bascule
from bascule.cache.remote import writer
from bascule.cache.remote.writer import Task, Writer


def task(name, content=b"content"):
    return Task(name, lambda: content)


def test_entries_are_written_in_their_order_many_in_one_round_trip():
    written, may_go = [], threading.Event()

    def write(entries):
        may_go.wait(60)
        written.append(list(entries))

    kept = Writer(write, 60)
    names = [str(number) for number in range(100)]
    assert all(kept.add(task(name)) for name in names)
    may_go.set()
    assert kept.flush()
    assert [name for trip in written for name in trip] == names
    assert len(written) <= 2 + 100 // writer.TOGETHER


def test_the_end_of_the_process_waits_no_longer_than_it_may():
    kept = Writer(lambda entries: time.sleep(30), 0.2)
    kept.add(task("slow"))
    begin = time.monotonic()
    assert not kept.flush()
    assert time.monotonic() - begin < 10


def test_an_entry_waits_for_what_belongs_to_it():
    there, written = [], []
    kept = Writer(lambda entries: written.extend(entries), 60)
    kept.add(Task("bundle", lambda: b"".join(there) or None))
    kept.add(task("first"))
    assert kept.flush() and written == ["first"]
    there.append(b"it")
    kept.add(task("second"))
    assert kept.flush() and sorted(written) == ["bundle", "first", "second"]


def test_too_many_entries_are_left_out(monkeypatch):
    monkeypatch.setattr(writer, "PENDING", 10)
    monkeypatch.setattr(Writer, "_started", lambda self: True)  # a thread that has not come to run yet
    kept = Writer(lambda entries: None, 60)
    added = [kept.add(Task(str(number), lambda: None)) for number in range(20)]
    assert added == [True] * 10 + [False] * 10


def test_without_a_thread_nothing_is_written(monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    kept = Writer(lambda entries: None, 60)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        assert not kept.add(task("first")) and kept.flush()
    assert kept.add(task("second")) and kept.flush()


def test_an_entry_that_cannot_be_made_does_not_keep_others_from_it():
    def fails():
        raise ValueError("no content")

    written = []
    kept = Writer(lambda entries: written.extend(entries), 60)
    kept.add(Task("bad", fails))
    kept.add(task("good"))
    assert kept.flush() and written == ["good"]
    assert bascule.counters()["cache"] == {"remote not stored: ValueError: no content": 1}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_does_not_wait_for_its_parents_entries():
    kept = Writer(lambda entries: time.sleep(30), 60)
    kept.add(task("slow"))
    child = os.fork()
    if child == 0:
        os._exit(0 if kept.flush() else 1)
    assert os.waitpid(child, 0)[1] == 0
