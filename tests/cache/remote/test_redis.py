"""A fleet with a Redis server: what one host compiled no other compiles; a server that is gone, slow or full costs one time-out."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch
from torch.compiler._cache import CacheArtifactManager

import bascule
from bascule.cache import versions
from bascule.cache.remote.redis_client import RedisClient
from bascule.cache.remote.remote_cache import remote_cache
from bascule.errors import CacheWarning
from tests.cache.cached_calls import counted, gated, inputs, run
from tests.cache.remote.redis_server import RedisServer, needed

pytest.importorskip("redis")
pytestmark = needed
PROCESS = Path(__file__).with_name("remote_process.py")


def begun(folder, program=PROCESS):
    environment = {**os.environ, "BASCULE_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, str(program)], env=environment, stdout=subprocess.PIPE)


def ended(process):
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(told)


def trained(function, x, w):
    """A step forward and backward."""
    w = w.clone().requires_grad_()
    out = run(function, x, w)
    out.square().sum().backward()
    return out.detach(), w.grad


# What is shared


def test_a_second_process_compiles_nothing(server, tmp_path):
    first = ended(begun(tmp_path / "here"))
    assert first["cache"]["stored"] == 2
    assert len(server.entries("graphs")) == 2 and len(server.entries("traces")) == 1
    moved = tmp_path / "moved.py"  # the user's source may lie elsewhere, and its lines too
    moved.write_text("\n\n" + PROCESS.read_text())
    second = ended(begun(tmp_path / "there", moved))
    assert second["cache"] == {"remote hit": 1, "hit": 2} and second["traces"] == {"hit": 1}
    assert not second["compiler"] and second["warnings"] == []
    assert (second["out"], second["grad"]) == (first["out"], first["grad"])
    third = ended(begun(tmp_path / "there"))
    assert third["cache"] == {"hit": 2}, "what came from there is on this disk"


def test_processes_at_one_time(server, tmp_path):
    """Each compiles, or loads what the other has written until then; entries that are there are whole."""
    running = [begun(tmp_path / str(number)) for number in range(2)]
    told = [ended(process) for process in running]
    assert told[0]["out"] == told[1]["out"] and told[0]["grad"] == told[1]["grad"]
    assert all(one["warnings"] == [] for one in told)
    last = ended(begun(tmp_path / "last"))
    assert last["cache"] == {"remote hit": 1, "hit": 2} and last["out"] == told[0]["out"]


def test_a_graph_takes_one_round_trip(server, host, monkeypatch):
    """With its backward, the kernels of both, and its trace."""
    x, w = inputs()
    first = trained(gated, x, w)
    host("second")
    asked, get = [], RedisClient.get
    monkeypatch.setattr(RedisClient, "get", lambda self, names, most: asked.append(names) or get(self, names, most))
    second = trained(gated, x, w)
    assert len(asked) == 1
    assert counted() == {"remote hit": 1, "hit": 2} and bascule.counters()["traces"] == {"hit": 1}
    assert all(map(torch.equal, first, second))


def test_explain_tells_where_they_came_from(server, host):
    def explained():
        return bascule.explain(gated, *inputs())

    host("first")
    assert "stored" in str(explained()) and remote_cache().flush()
    host("second")
    found = explained()
    assert found.caches["cache"]["remote hit"] and re.search(
        r"^traces: 1 hit; cache: .*\d remote hit", str(found), re.M
    )


def test_traces_with_other_guards_lie_beside_each_other(server, host):
    """Of one key: a host that finds none for its numbers writes a further one, not over another's."""

    def guarded(x):
        return x + 1 if x.shape[0] > 5 else x - 1

    for place, size in (("first", 3), ("second", 7), ("third", 7), ("fourth", 3)):
        host(place)
        x = torch.randn(size, 4)
        torch.testing.assert_close(run(guarded, x, dynamic=True), guarded(x))
        if place in ("third", "fourth"):
            assert bascule.counters()["traces"] == {"hit": 1}


def test_a_trace_that_was_given_up_is_shared(server, host):
    """Dynamo began again with a number of the module as a constant."""
    model, x = torch.nn.LayerNorm(8).requires_grad_(False), torch.randn(4, 8)
    first = run(model, x, dynamic=True)
    assert bascule.counters()["traces"] == {"miss": 2, "stored": 2}
    host("second")
    assert torch.equal(run(model, x, dynamic=True), first)
    assert bascule.counters()["traces"] == {"hit": 2} and counted() == {"remote hit": 2, "hit": 1}


@pytest.mark.parametrize("part", ["instruction_sets", "model", "vendor"])
def test_a_host_with_another_processor_finds_nothing(server, host, monkeypatch, part):
    """Machine code for one that has more instructions would end its process."""
    x, w = inputs()
    run(gated, x, w)
    host("second")
    monkeypatch.setattr(versions, part, lambda: "another")
    monkeypatch.setattr(versions, "_installed", versions._installed.__wrapped__)
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted()["remote miss"] == 2 and "remote hit" not in counted()


def test_an_entry_lives_as_long_as_is_said(server, host, monkeypatch):
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_TTL", "7200")
    run(gated, *inputs())
    assert remote_cache().flush()
    assert all(7000 < server.own.ttl(name) <= 7200 for name in server.entries())


def test_a_server_with_a_password(tmp_path, host, monkeypatch):
    server = RedisServer(tmp_path, requirepass="swordfish")
    try:
        monkeypatch.setenv("BASCULE_REMOTE_CACHE", f"redis://:swordfish@127.0.0.1:{server.port}/0")
        host("with it")
        run(gated, *inputs())
        assert remote_cache().flush() and len(server.entries()) == 2
        monkeypatch.setenv("BASCULE_REMOTE_CACHE", f"redis://:swordfist@127.0.0.1:{server.port}/0")
        host("with another")
        with pytest.warns(CacheWarning, match="AuthenticationError") as told:
            run(gated, *inputs())
        assert "swordf" not in str(told[0].message) and not any("swordf" in name for name in counted())
    finally:
        server.kill()


def test_a_unix_socket(tmp_path, host, monkeypatch):
    folder = tempfile.mkdtemp()  # whose name is short: a socket's has 107 characters at most
    path = f"{folder}/socket"
    server = RedisServer(tmp_path, unixsocket=path)
    try:
        monkeypatch.setenv("BASCULE_REMOTE_CACHE", f"unix://{path}")
        host("first")
        run(gated, *inputs())
        host("second")
        run(gated, *inputs())
        assert counted() == {"remote hit": 1, "hit": 1}
    finally:
        server.kill()
        shutil.rmtree(folder)


def test_artifacts_have_what_came_from_there(server, host):
    run(gated, *inputs())
    for name, way in (("second", "remote hit"), ("second", "hit")):
        if way == "remote hit":
            host(name)
        with CacheArtifactManager.with_fresh_cache():
            run(gated, *inputs())
            found = CacheArtifactManager._new_cache_artifacts
        assert {kind: len(kept) for kind, kept in found.items() if kept} == {"bascule": 1, "bascule_traces": 1}
    assert counted() == {"remote hit": 1, "hit": 2}


# Servers that fail


def calls_are_right(number):
    """So many graphs, of which no two are equal, compute what they should."""
    for size in range(1, number + 1):
        x, w = torch.randn(size, 8), torch.randn(8, 8)
        torch.testing.assert_close(run(gated, x, w), gated(x, w))


def cache_warnings(told):
    return [str(one.message) for one in told if one.category is CacheWarning]


def test_a_server_that_is_gone(server, host):
    server.kill()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        calls_are_right(2)
    (warning,) = cache_warnings(told)
    assert server.address in warning and "BASCULE_REMOTE_CACHE, empty, turns it off" in warning
    (failure,) = [name for name in counted() if name.startswith("remote failed: Unreachable")]
    assert counted()[failure] == 1 and counted()["remote paused"] == 3


@pytest.mark.parametrize("how", [signal.SIGSTOP, "between"])
def test_a_server_that_stops_answering(server, host, monkeypatch, how):
    """One time-out, from the first look-up or from a later one."""
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_TIMEOUT", "0.7")
    host("with little patience")
    if how == "between":
        calls_are_right(1)
        assert remote_cache().flush()
        host("with a connection")
        remote_cache().get("graphs", ["0" * 64])
    server.signal(signal.SIGSTOP)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        calls_are_right(3)
    assert counted()["remote time-out"] == 1 and counted()["remote paused"] == 5
    (warning,) = cache_warnings(told)
    assert "no answer in 0.7 s" in warning
    begin = time.monotonic()
    remote_cache().flush()
    assert time.monotonic() - begin < 5, "the end of the process waits no longer"


def test_a_server_that_is_killed_in_the_middle_of_a_look_up(server, host, monkeypatch):
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_TIMEOUT", "60")
    host("with much patience")
    remote_cache().get("graphs", ["0" * 64])
    server.signal(signal.SIGSTOP)
    threading.Timer(0.5, server.kill).start()
    with pytest.warns(CacheWarning, match="Unreachable"):
        calls_are_right(2)
    assert counted()["stored"] == 2


def test_a_time_out_of_the_users_own_is_not_taken_for_the_servers(server, host, monkeypatch):
    """A signal's handler raises while a look-up waits."""

    def time_is_up(number, frame):
        raise TimeoutError("the job's time is up")

    monkeypatch.setenv("BASCULE_REMOTE_CACHE_TIMEOUT", "60")
    host("with much patience")
    server.signal(signal.SIGSTOP)
    before = signal.signal(signal.SIGALRM, time_is_up)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(TimeoutError, match="the job's time is up"):
            remote_cache().get("graphs", ["0" * 64])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not counted()


def test_a_server_that_drips(host, monkeypatch):
    """Each wait is short, all of them together are not."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                try:
                    while True:
                        connection.sendall(b"+")
                        time.sleep(0.1)
                except OSError:
                    pass

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setenv("BASCULE_REMOTE_CACHE", f"redis://127.0.0.1:{listening.getsockname()[1]}/0")
        monkeypatch.setenv("BASCULE_REMOTE_CACHE_TIMEOUT", "1")
        host("with little patience")
        with pytest.warns(CacheWarning, match="no answer in 1 s"):
            calls_are_right(1)
        assert counted()["remote time-out"] == 1


def test_a_server_that_is_there_again_is_asked_again(server, host, monkeypatch):
    calls_are_right(1)
    host("second")
    cache = remote_cache()
    server.signal(signal.SIGSTOP)
    monkeypatch.setattr(cache, "settings", cache.settings)
    with pytest.warns(CacheWarning):
        assert cache.get("graphs", ["0" * 64]) == {}
    server.signal(signal.SIGCONT)
    assert cache.get("graphs", ["0" * 64]) == {} and counted()["remote paused"] == 1
    cache._paused_until["reading"] = 0.0
    calls_are_right(1)
    assert counted()["remote hit"] == 1


def test_a_full_server_is_read(server, host):
    """It refuses to write, and warns of that."""
    calls_are_right(1)
    assert remote_cache().flush()
    server.own.config_set("maxmemory", "1")
    host("second")
    calls_are_right(1)
    assert counted()["remote hit"] == 1
    with pytest.warns(CacheWarning, match="writing failed: .*OutOfMemory"):
        calls_are_right(3)
        remote_cache().flush()
    assert counted()["remote miss"] == 4, "it is asked all the same"
