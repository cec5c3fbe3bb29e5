"""The files of the disk cache: spoiled, foreign, of other users, cut off, and on a full disk."""

import os
import resource
import signal
import stat
import time
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
import torch
from bascule.lowering.triton.kernel_cache import KernelCache, MachineCode
from bascule.runtime.object_code import ObjectCode, ObjectCodeError
from bascule.runtime.packages import PackageError, pack, unpack
from cached_calls import counted, entries, gated, inputs, run

import bascule
from bascule.cache_directory import Directory, Refused, clear, statistics, trim

PROCESS = Path(__file__).with_name("cached_process.py")


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
            description, blobs = unpack(content)
            path.write_bytes(pack({**description, "key": "0" * 64}, blobs))
        case "no object code":
            description, blobs = unpack(content)
            path.write_bytes(pack(description, {**blobs, "kernels/object": b"\x7fELF\x02\x01" + bytes(100)}))
        case "writable by all":
            path.chmod(0o666)
        case "a directory":
            path.unlink()
            path.mkdir()


SPOILED = {
    "empty": "not a package",
    "cut in its head": "checksum",
    "cut in its middle": "checksum",
    "cut at its end": "checksum",
    "a bit changed": "checksum",
    "other bytes": "not a package",
    "of another key": "another graph",
    "no object code": "ELF file",
    "writable by all": "can be written by others",
    "a directory": "reading failed",
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
    path.write_bytes(pack({k: path.name if v == "KEY" else v for k, v in description.items()}, blobs))
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    group = {"graphs": "cache", "traces": "traces"}[cache]
    assert [name for name in bascule.counters()[group] if name.startswith("refused: ")]


@pytest.mark.parametrize("rest", [b"", b"[1]\n", b"1\n", b"{}\n", b'{"key": "KEY"}\n', b'{"key": "KEY", "odd": 1}\n'])
def test_a_whole_file_that_is_no_kernel_is_not_used(folder, rest):
    kernels, key = KernelCache(folder / "kernels"), "ab" * 32
    kernels.put(key, MachineCode(b"cubin", "entry", 4, 0, ""))
    rest = rest.replace(b"KEY", key.encode())
    (folder / "kernels" / key[:2] / key).write_bytes(sha256(rest).hexdigest().encode() + b"\n" + rest)
    assert kernels.get(key) is None


def test_changed_bytes_of_any_file_are_noticed(folder):
    """One byte anywhere, one byte less, one more."""
    x, w = inputs()
    run(gated, x, w.requires_grad_()).sum().backward()
    kernels, key, random = KernelCache(folder / "kernels"), "ab" * 32, Random(0)
    kernels.put(key, MachineCode(bytes(range(256)), "entry", 4, 0, "model.py:1"))
    for path in (path for path in folder.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        changed = [whole[:-1], whole + b"\0"]
        for at in (0, len(whole) - 1, *(random.randrange(len(whole)) for _ in range(200))):
            changed.append(whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :])
        for content in changed:
            path.write_bytes(content)
            if path.name == key:
                assert kernels.get(key) is None
            else:
                with pytest.raises(PackageError):
                    unpack(content)


def test_writers_that_are_killed_leave_whole_entries_or_none(folder):
    directory, key, sizes = Directory(folder / "graphs"), "ab" * 32, (10, 3_000_000)
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
    assert directory.size()[1] <= 1_000_000


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
    directory = Directory(folder / "graphs")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(Refused, match="writing failed"):
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
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
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
