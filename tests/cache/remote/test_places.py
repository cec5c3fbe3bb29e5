"""Where a remote cache may be, and what stands before it: a shared directory, whatever fsspec knows, with a disk cache or without."""

import os
import sys
import time
import warnings
from pathlib import Path

import fsspec
import pytest
import torch

import bascule
from bascule.cache.disk.directory import statistics
from bascule.cache.remote.fsspec_client import FsspecClient
from bascule.cache.remote.remote_cache import remote_cache
from bascule.cache.remote.settings import settings
from bascule.cache.stores.backed_store import store_of
from bascule.cache.stores.process_memory import Memory, MemoryStore
from bascule.errors import CacheWarning
from bascule.tools import main as command
from tests.cache.cached_calls import counted, entries, gated, inputs, run

KEYS = ["a" * 64, "b" * 64, "c" * 64]


@pytest.fixture(params=["a folder", "file", "memory"])
def place(request, tmp_path, monkeypatch):
    """An address that the environment names."""
    addresses = {
        "a folder": str(tmp_path / "shared"),
        "file": (tmp_path / "shared").as_uri(),
        "memory": "memory://shared",
    }
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", addresses[request.param])
    yield addresses[request.param]
    fsspec.filesystem("memory").store.clear()


def test_another_host_compiles_nothing(place, host, tmp_path):
    x, w = inputs()
    first = run(gated, x, w)
    host("second")
    assert torch.equal(run(gated, x, w), first)
    assert counted() == {"remote hit": 1, "hit": 1} and bascule.counters()["traces"] == {"hit": 1}
    assert len(entries(tmp_path / "second", "graphs")) == len(entries(tmp_path / "second", "traces")) == 1


def test_without_a_disk_cache_entries_are_in_memory(place, host, monkeypatch):
    """They are written, and read at most once a process."""
    x, w = inputs()
    for name in ("first", "second"):
        host(name)
        monkeypatch.setenv("BASCULE_CACHE_DIR", "")
        for _ in range(3):
            torch.testing.assert_close(run(gated, x, w), gated(x, w))
            assert statistics() == {"directory": None}
        if name == "first":
            assert remote_cache().flush()
            assert counted() == {"remote miss": 2, "miss": 1, "stored": 1, "hit": 2, "remote stored": 2}
        else:
            assert counted() == {"remote hit": 1, "hit": 3}


def test_an_address_alone_changes_nothing(host, monkeypatch):
    monkeypatch.setenv("BASCULE_CACHE_DIR", "")
    run(gated, *inputs())
    assert counted() == {"bypass: BASCULE_CACHE_DIR is empty": 1}


@pytest.mark.parametrize("kind", ["kernels", "schedules"])
def test_kernels_and_schedules_come_together(place, host, monkeypatch, kind):
    """All that are missing here in one round trip; what came is here then."""
    for key in KEYS[:2]:
        store_of(kind).put(key, key.encode())
    host("second")
    asked, get = [], FsspecClient.get
    monkeypatch.setattr(FsspecClient, "get", lambda *rest: asked.append(rest) or get(*rest))
    assert store_of(kind).find(KEYS) == {key: key.encode() for key in KEYS[:2]}
    assert len(asked) == 1 and counted() == {"remote hit": 2}
    assert store_of(kind).find(KEYS[:2]) == {key: key.encode() for key in KEYS[:2]} and len(asked) == 1


def test_a_damaged_entry_of_this_disk_is_replaced_from_there(place, host, tmp_path):
    x, w = inputs()
    first = run(gated, x, w)
    assert remote_cache().flush()
    for kind in ("graphs", "traces"):
        (path,) = entries(tmp_path / "first", kind)
        path.write_bytes(path.read_bytes()[:-1])
    assert torch.equal(run(gated, x, w), first)
    assert counted()["remote hit"] == 1 and counted()["hit"] == 1
    assert torch.equal(run(gated, x, w), first)
    assert counted()["remote hit"] == 1 and counted()["hit"] == 2


def test_a_disk_cache_that_cannot_be_used_does_not_keep_the_remote_one_from_it(place, host, tmp_path):
    x, w = inputs()
    first = run(gated, x, w)
    host("second")
    (tmp_path / "second").mkdir(mode=0o777)
    (tmp_path / "second").chmod(0o777)
    (tmp_path / "second" / "traces").write_text("no folder")
    (tmp_path / "second" / "graphs").write_text("no folder")
    with pytest.warns(CacheWarning, match="the disk cache"):
        assert torch.equal(run(gated, x, w), first)
    assert counted()["hit"] == 1


def test_memory_is_bounded():
    memory = Memory(limit=1000)
    store = MemoryStore("graphs", memory)
    for number in range(20):
        store.write(f"{number}", bytes(100))
        store.read("0")
    assert store.read("0") is not None and store.read("19") is not None and store.read("1") is None
    assert memory.bytes == 1000


# A shared directory


@pytest.fixture
def shared(tmp_path, monkeypatch):
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", str(tmp_path / "shared"))
    return tmp_path / "shared"


def test_a_writer_leaves_nothing_unfinished_and_deletes_what_is_too_old(shared):
    client = FsspecClient(str(shared), 1000)
    client.put({f"graphs/{key}": b"content" for key in KEYS}, 1000)
    old = [*shared.rglob("*/*/*"), shared / "graphs/aa" / f".{KEYS[0]}.{'0' * 32}", shared / "graphs/aa/of-others"]
    assert len(old) == 5
    for path in old:
        path.write_bytes(b"")
        os.utime(path, (time.time() - 2000,) * 2)
    FsspecClient(str(shared), 1000).put({f"graphs/aa{'0' * 62}": b"content"}, 1000)
    assert sorted(path.name for path in (shared / "graphs/aa").iterdir()) == [f"aa{'0' * 62}", "of-others"]
    assert (shared / "graphs/bb" / KEYS[1]).exists(), "a folder is looked at by who writes there"


def test_a_directory_that_cannot_be_written_is_read(shared, host):
    x, w = inputs()
    run(gated, x, w)
    host("second")
    for folder in shared.glob("*"):
        for path in folder.rglob("*"):
            path.rename(shared / f"{folder.name}-{path.name}") if path.is_file() else None
    for path in shared.glob("*-*"):  # as where a file is in the place of a folder
        kind, name = path.name.split("-")
        path.rename(shared / kind / name[:2] / name)
    other = shared / "graphs" / "00"
    other.write_text("no folder")
    cache = remote_cache()
    cache.put("graphs", "00" + "0" * 62, lambda: b"content")
    with pytest.warns(CacheWarning, match="writing failed"):
        assert cache.flush()
    run(gated, x, w)
    assert counted()["remote hit"] == 1


def test_a_folder_where_a_file_should_be(shared, host):
    x, w = inputs()
    run(gated, x, w)
    host("second")
    for path in [path for path in shared.rglob("*") if path.is_file()]:
        path.unlink()
        path.mkdir()
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted()["remote refused: not an entry, or one of another version"] == 2


def test_a_pipe_where_a_file_should_be(shared, host, monkeypatch):
    """Who opens it waits for its writer: no longer than a time-out."""
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_TIMEOUT", "0.5")
    x, w = inputs()
    run(gated, x, w)
    host("second")
    for path in [path for path in shared.rglob("*") if path.is_file()]:
        path.unlink()
        os.mkfifo(path)
    with pytest.warns(CacheWarning, match="no answer in 0.5 s"):
        torch.testing.assert_close(run(gated, x, w), gated(x, w))
    for path in [path for path in shared.rglob("*") if path.is_fifo()]:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


# Addresses and numbers


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nowhere://x/y", "Protocol not known"),
        ("redis://h:no", "Port could not be cast|invalid"),
        ("s3://bucket/x", "s3fs"),
    ],
)
def test_an_address_that_cannot_be_used(host, monkeypatch, address, said):
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", address)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for size in (3, 4):
            run(gated, torch.randn(size, 8), torch.randn(8, 8))
    (warning,) = [str(one.message) for one in told if one.category is CacheWarning]
    assert address in warning and any(text in warning for text in said.split("|")), warning
    assert counted()["stored"] == 2


@pytest.mark.parametrize(("address", "library"), [("redis://localhost", "redis"), ("memory://x", "fsspec")])
def test_a_library_that_is_not_installed(host, monkeypatch, address, library):
    client = f"bascule.cache.remote.{'redis' if library == 'redis' else 'fsspec'}_client"
    monkeypatch.delitem(sys.modules, client, raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", address)
    with pytest.warns(CacheWarning, match=r"pip install 'bascule\[remote\]'"):
        run(gated, *inputs())
    assert counted()["stored"] == 1


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("redis://user:swordfish@host:6379/0", "redis://host:6379/0"),
        ("redis://host/0?password=swordfish&db=1", "redis://host/0?&db=1"),
        ("s3://bucket/x", "s3://bucket/x"),
    ],
)
def test_passwords_are_not_shown(monkeypatch, address, shown):
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", address)
    assert settings().shown == shown


def test_the_command_tells_of_it(monkeypatch, capsys):
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", "redis://:swordfish@host:6379/0")
    assert command.main(["cache", "stat"]) == 0
    assert capsys.readouterr().out == "directory: none, the cache is off\nbehind it: redis://host:6379/0\n"


def test_a_folder_is_meant_from_where_the_process_is(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", "shared")
    assert settings().address == str(tmp_path / "shared")
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", "~/shared")
    assert settings().address == str(Path.home() / "shared")


@pytest.mark.parametrize("text", ["soon", "0", "-1", "1e3"])
def test_a_number_that_is_none(monkeypatch, text):
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", "memory://x")
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_TIMEOUT", text)
    with pytest.warns(
        CacheWarning, match=r"\$BASCULE_REMOTE_CACHE_TIMEOUT is '.*', which is no number above 0: 2 it is"
    ):
        assert settings().timeout == 2
