"""A first collective that does not begin has its group aborted after the group's time-out, and no other call of a module is disturbed."""

import threading
import time

import pytest
import torch
from bascule.runtime.modules import first_collectives

from bascule.compat.tensors import process_groups

LIMIT = 0.4  # seconds
SOURCE = """\
def call(args):
    x = begin(args, "sum", "7")
    pause()
    return wait_tensor(x)
"""


@pytest.fixture(scope="module")
def operators():
    """Of a backend whose collectives wait on the host until its group is aborted, if there is nobody to meet."""
    library = torch.library.Library("bascule_slow_ranks", "DEF")
    library.define("all_reduce(Tensor x, str op, str group) -> Tensor")
    library.define("wait_tensor(Tensor x) -> Tensor")
    yield torch.ops.bascule_slow_ranks
    library._destroy()


class Group:
    def __init__(self, ends=True):
        self.aborted, self.ends = threading.Event(), ends

    def abort(self):
        if self.ends:
            self.aborted.set()


def called(operators, monkeypatch, group, begin, pause=lambda: None, wait=lambda x: x):
    """Runs the module with these as its operators, watched."""
    monkeypatch.setattr(process_groups, "timeout_of", {"7": LIMIT}.get)
    monkeypatch.setattr(process_groups, "group_named", {"7": group}.__getitem__)
    namespace = {"begin": lambda *_: begin(), "pause": pause, "wait_tensor": wait}
    exec(compile(SOURCE, "<slow>", "exec"), namespace)
    looked_up = {
        "begin": operators.all_reduce.default,
        "pause": pause,
        "wait_tensor": operators.wait_tensor.default,
    }
    with first_collectives.watched(namespace["call"].__code__, SOURCE.splitlines(), looked_up):
        return namespace["call"]([])


def test_what_does_not_begin_is_aborted(operators, monkeypatch):
    group = Group()

    def begin():
        assert group.aborted.wait(30)
        raise RuntimeError("aborted")

    began = time.monotonic()
    with pytest.raises(RuntimeError, match="aborted"):
        called(operators, monkeypatch, group, begin)
    assert LIMIT <= time.monotonic() - began < 10


@pytest.mark.parametrize("slow", ["pause", "wait"])
def test_only_starts_are_ended(operators, monkeypatch, slow):
    """A wait has a time-out of its own, and what computes may take as long as it does."""
    group = Group()
    seconds = {slow: 3 * LIMIT}
    result = called(
        operators,
        monkeypatch,
        group,
        begin=lambda: 5,
        pause=lambda: time.sleep(seconds.get("pause", 0)),
        wait=lambda x: time.sleep(seconds.get("wait", 0)) or x,
    )
    assert result == 5 and not group.aborted.is_set()


def test_collectives_that_begin_in_time_are_left_alone(operators, monkeypatch):
    group = Group()
    assert called(operators, monkeypatch, group, lambda: time.sleep(LIMIT / 2) or 5) == 5
    time.sleep(LIMIT)
    assert not group.aborted.is_set()
    assert all(thread.name != "bascule-first-collectives" for thread in threading.enumerate())


def test_a_process_that_cannot_abort_ends(operators, monkeypatch, capfd):
    group, ended = Group(ends=False), threading.Event()
    monkeypatch.setattr(first_collectives, "GRACE", 0.1)
    monkeypatch.setattr(first_collectives.os, "abort", ended.set)
    assert called(operators, monkeypatch, group, lambda: ended.wait(30)) is True
    assert "process group '7' has not begun within 0 s" in capfd.readouterr().err
