"""The files of the disk cache: spoiled, foreign, of other users, cut off, and on a full disk."""

import fcntl
import os
import resource
import signal
import stat
import time
from pathlib import Path
from random import Random

import pytest
import torch
from bascule.runtime.kernels.elf_loader import ObjectCode, ObjectCodeError
from bascule.runtime.packages.container import PackageError, pack, unpack

import bascule
from bascule.cache.disk import eviction
from bascule.cache.disk.directory import clear, statistics
from bascule.cache.disk.eviction import trim
from bascule.cache.disk.files import Refused
from bascule.cache.stores.backed_store import BackedStore
from bascule.errors import CacheWarning
from tests.cache.cached_calls import counted, entries, gated, inputs, opened, resigned, run, store

PROCESS = Path(__file__).parents[1] / "cached_process.py"


def spoil(how, path):
    content = path.read_bytes()
    match how:
        case "empty":
            path.write_bytes(b"")
        case "cut in its head":
            path.write_bytes(content[:30])
        case "cut in its middle":
            path.write_bytes(content[: len(content) // 2])
        case "cut at its end":
            path.write_bytes(content[:-1])
        case "a bit changed":
            path.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
        case "other bytes":
            path.write_bytes(os.urandom(len(content)))
        case "of another key":
            description, blobs = unpack(opened(path))
            resigned(path, pack({**description, "key": "0" * 64}, blobs))
        case "no object code":
            description, blobs = unpack(opened(path))
            resigned(path, pack(description, {**blobs, "kernels/object": b"\x7fELF\x02\x01" + bytes(100)}))
        case "writable by all":
            path.chmod(0o666)
        case "a directory":
            path.unlink()
            path.mkdir()


SPOILED = {
    "empty": "not an entry",
    "cut in its head": "not an entry",
    "cut in its middle": "signature",
    "cut at its end": "signature",
    "a bit changed": "signature",
    "other bytes": "not an entry",
    "of another key": "another graph",
    "no object code": "ELF file",
    "writable by all": "can be written by others",
    "a directory": "is no file",
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_entry_is_not_used(folder, how):
    x, w = inputs()
    run(gated, x, w)
    (path,) = entries(folder, "graphs")
    spoil(how, path)
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    refused = [reason for reason in counted() if reason.startswith("refused")]
    assert SPOILED[how] in refused[0] and "hit" not in counted()
    if how != "a directory":  # which nothing can be renamed over
        run(gated, x, w)
        assert counted()["hit"] == 1, "the compile that refused it has written it anew"


FOREIGN = {
    "a package of something else": pack({"weights": []}, {}),
    "a graph without a wrapper": pack({"key": "KEY", "summary": {}}, {}),
    "a graph without kernels": pack({"key": "KEY", "summary": {}}, {"wrapper": b""}),
    "text that is none": pack({"key": "KEY", "summary": {}}, {"wrapper": b"\xff\xfe"}),
}


@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("cache", ["graphs", "traces"])
def test_a_whole_package_that_is_no_entry_is_not_used(folder, cache, what):
    x, w = inputs()
    run(gated, x, w)
    (path,) = entries(folder, cache)
    description, blobs = unpack(FOREIGN[what])
    resigned(path, pack({k: path.name if v == "KEY" else v for k, v in description.items()}, blobs))
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    group = {"graphs": "cache", "traces": "traces"}[cache]
    assert [name for name in bascule.counters()[group] if name.startswith("refused: ")]


def test_changed_bytes_of_any_file_are_noticed(folder):
    """One byte anywhere, one byte less, one more."""
    x, w = inputs()
    run(gated, x, w.requires_grad_()).sum().backward()
    random = Random(0)
    for path in (*entries(folder, "graphs"), *entries(folder, "traces")):
        kept, whole = store(folder, path.parents[1].name), path.read_bytes()
        changed = [whole[:-1], whole + b"\0"]
        for at in (0, len(whole) - 1, *(random.randrange(len(whole)) for _ in range(200))):
            changed.append(whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :])
        for content in changed:
            path.write_bytes(content)
            with pytest.raises(Refused):
                kept.read(path.name)


def test_writers_that_are_killed_leave_whole_entries_or_none(folder):
    directory, key, sizes = store(folder, "graphs"), "ab" * 32, (10, 3_000_000)
    contents = [pack({"key": key}, {"a": bytes([number]) * size}) for number, size in enumerate(sizes)]
    for number in range(12):
        child = os.fork()
        if child == 0:
            try:
                while True:
                    for content in contents:
                        directory.write(key, content)
            finally:
                os._exit(1)
        time.sleep(0.002 * number)
        assert directory.read(key) in (None, *contents)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert directory.read(key) in (None, *contents)
    directory.write(key, contents[0])
    assert directory.read(key) == contents[0]
    trim(folder, 1_000_000)  # what the dead have left unfinished goes too
    assert sum(path.stat().st_size for path in entries(folder, "graphs")) <= 1_000_000


@pytest.mark.parametrize("kind", ["graphs", "traces", "kernels", "schedules"])
def test_an_entry_is_one_of_its_kind_and_key_only(folder, kind):
    kept, other = store(folder, kind), store(folder, "traces" if kind == "graphs" else "graphs")
    kept.write("ab" * 32, b"content")
    for there, key in ((kept, "cd" * 32), (other, "ab" * 32)):
        there.write(key, b"another")
        os.replace(kept.path("ab" * 32), there.path(key))
        with pytest.raises(Refused, match="signature"):
            there.read(key)
        kept.write("ab" * 32, b"content")
    assert kept.read("ab" * 32) == b"content"


def test_an_entry_larger_than_the_limit_is_not_kept(folder):
    kept = store(folder, "graphs", 1_000_000)
    with pytest.warns(CacheWarning, match="5,000,000 bytes is larger than the limit of 1,000,000") as told:
        for number in range(60):
            BackedStore(kept).put(f"{number:02x}" * 32, bytes(5_000_000))
    assert len(told) == 1 and statistics()["graphs"] == {"entries": 0, "bytes": 0}
    for number in range(60):
        BackedStore(kept).put(f"{number:02x}" * 32, bytes(100_000))
        assert statistics()["graphs"]["bytes"] <= 1_000_000
    assert statistics()["graphs"]["entries"] >= 7


def test_a_lower_limit_holds_at_once(folder):
    for number in range(20):
        BackedStore(store(folder, "graphs")).put(f"{number:02x}" * 32, bytes(100_000))
    BackedStore(store(folder, "kernels", 500_000)).put("ff" * 32, b"small")
    assert sum(found["bytes"] for found in list(statistics().values())[1:]) <= 500_000


def test_stores_do_not_look_at_every_entry_each_time(folder, monkeypatch):
    looks = []
    monkeypatch.setattr(eviction, "trim", lambda *about: looks.append(about))
    for number in range(200):
        BackedStore(store(folder, "graphs", 80_000_000)).put(f"{number:064x}", bytes(100_000))
    assert 1 <= len(looks) <= 4, "200 stores of a hundredth of an eighth: two looks, and one at the begin"


def test_unfinished_files_are_no_entries(folder):
    kept = store(folder, "graphs")
    kept.write("ab" * 32, b"content")
    dead, alive = (kept.path("ab" * 32).with_name(f".{'ab' * 32}.{digit * 32}") for digit in "01")
    for path in (dead, alive):
        path.write_bytes(bytes(1000))
    with alive.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as its writer does
        assert statistics()["graphs"]["entries"] == 1
        trim(folder, 1 << 30)
        assert not dead.exists() and alive.exists()
    assert clear() == 1 and not alive.exists()


def test_every_prefix_of_a_package_is_refused():
    whole = pack({"key": "k"}, {"a": b"some bytes", "b": b""})
    assert unpack(whole) == ({"key": "k"}, {"a": b"some bytes", "b": b""})
    for length in range(len(whole)):
        with pytest.raises(PackageError):
            unpack(whole[:length])


@pytest.mark.parametrize(
    "content", [b"\x7f", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(90), b"\x7fELF\x02\x01" + bytes(90)]
)
def test_what_is_no_object_code_is_refused(content):
    with pytest.raises(ObjectCodeError):
        ObjectCode.load(content)


def test_a_directory_that_others_can_write_is_not_used(folder):
    (folder / "graphs").mkdir(parents=True)
    (folder / "graphs").chmod(0o777)
    x, w = inputs()
    with pytest.warns(CacheWarning, match="the directory can be written by others"):
        torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted() == {"miss": 1, "refused: the directory can be written by others": 1}
    assert entries(folder, "graphs") == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_not_used(folder):
    x, w = inputs()
    run(gated, x, w)
    os.chown(entries(folder, "graphs")[0], 12345, -1)
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted()["refused: a file belongs to another user"] == 2, "for the trace's graph, and for the graph"


@pytest.mark.parametrize("what", ["a pipe", "a device", "a directory", "a link to itself"])
def test_what_is_no_file_is_not_read(folder, what):
    """Who opens a pipe waits for its writer, and a device may have no end."""
    x, w = inputs()
    run(gated, x, w)
    for path in (*entries(folder, "graphs"), *entries(folder, "traces")):
        path.unlink()
        make = {
            "a pipe": os.mkfifo,
            "a device": lambda path: path.symlink_to("/dev/zero"),
            "a directory": Path.mkdir,
            "a link to itself": lambda path: path.symlink_to(path),
        }
        make[what](path)
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert any(reason.startswith("refused") for reason in counted()) and "hit" not in counted()
    assert statistics()["directory"] == str(folder)


def test_entries_are_the_users_own(folder):
    run(gated, *inputs())
    (path,) = entries(folder, "graphs")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_full_disk_costs_nothing_but_the_entry(folder):
    """A limit of file sizes refuses writes as a full disk does, in the middle of a file."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    directory = store(folder, "graphs")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(Refused, match="writing failed"), pytest.warns(CacheWarning, match="File too large"):
            directory.write("ab" * 32, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert entries(folder, "graphs") == []
    assert directory.read("ab" * 32) is None


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path / "file"))
    x, w = inputs()
    with pytest.warns(CacheWarning, match="Not a directory") as told:
        torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert len([one for one in told if one.category is CacheWarning]) == 1, (
        "for the trace and the graph, to read and to write"
    )
    assert all("failed: Not a directory" in name for name in counted())


def test_only_entries_are_counted_and_deleted(folder):
    """A directory that is not only the cache's: folders of the same names may hold anything."""
    run(gated, *inputs())
    found = statistics()["graphs"]["entries"]
    foreign = [
        folder / "graphs" / "mine.svg",
        folder / "kernels" / "ab" / "notes",
        folder / "traces" / "a" / ("b" * 64),
    ]
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("not the cache's")
    assert statistics()["graphs"]["entries"] == found > 0
    trim(folder, 0)
    assert statistics()["graphs"]["entries"] == 0
    run(gated, *inputs())
    assert clear() >= found
    assert all(path.read_text() == "not the cache's" for path in foreign)
