"""The disk cache: what hits, what does not, and that nothing wrong is ever loaded."""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
import torch
from bascule.frontend.graph_key import NotKeyed
from bascule.lowering.triton.kernel_cache import KernelCache, MachineCode
from bascule.runtime.object_code import ObjectCode, ObjectCodeError
from bascule.runtime.packages import PackageError, pack, unpack
from cached_calls import entries, gated, inputs, run
from raising_pass import Raises
from torch.compiler._cache import CacheArtifactManager

import bascule
from bascule import cache_artifacts, cache_directory, cache_key, trace_cache, versions
from bascule.cache_directory import FOLDERS, Directory, Refused, statistics, trim
from bascule.tools import main as command

PROCESS = Path(__file__).with_name("cached_process.py")


def counted():
    return bascule.counters()["cache"]


def test_the_second_compile_hits(folder):
    x, w = inputs()
    first, second = run(gated, x, w), run(gated, x, w)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}
    torch.testing.assert_close(first, gated(x, w))
    assert torch.equal(first, second)


def test_a_training_step_hits_forward_and_backward(folder):
    grads = []
    for _ in range(2):
        torch.manual_seed(0)
        x, w = (t.requires_grad_() for t in inputs())
        run(gated, x, w).sum().backward()
        grads.append((x.grad, w.grad))
    assert counted() == {"miss": 2, "stored": 2, "hit": 2}
    assert all(map(torch.equal, *grads))


def test_what_is_told_is_the_same(folder):
    x, w = inputs()
    told = [bascule.explain(gated, x, w).graphs[0] for _ in range(2)]
    assert "jit" in told[0].seconds and "jit" not in told[1].seconds
    first, second = ({**vars(graph), "seconds": None, "name": None} for graph in told)
    assert first == second
    assert list(bascule.counters()["aten"].values()) == [2]


@pytest.mark.parametrize(
    "other",
    [
        lambda x, w: run(lambda x, w: torch.sigmoid(x @ w) * x + 1, x, w),
        lambda x, w: run(gated, x.double(), w.double()),
        lambda x, w: run(gated, x[:3], w),
        lambda x, w: run(gated, x.t().contiguous().t(), w),
        lambda x, w: run(gated, x, w, numerics="eager"),
        lambda x, w: run(gated, x, w, pipeline=",".join(bascule.pipelines.DEFAULT).replace("canonicalize,", "")),
    ],
    ids=["operators", "dtypes", "sizes", "strides", "options", "pipeline"],
)
def test_other_graphs_miss(folder, other):
    x, w = inputs()
    run(gated, x, w)
    other(x, w)
    assert counted() == {"miss": 2, "stored": 2}


def test_constants_are_not_part_of_an_entry(folder):
    x = torch.randn(3)
    for values in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]):
        constant = torch.tensor(values)
        torch.testing.assert_close(run(lambda x, c=values: x * torch.tensor(c), x), x * constant)
    assert counted().get("hit") == 1


def test_dynamic_sizes_hit(folder):
    for _ in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(gated, backend="bascule", dynamic=True, options={"on_error": "raise"})
        for rows in (2, 5, 9):
            x, w = torch.randn(rows, 8), torch.randn(8, 8)
            torch.testing.assert_close(compiled(x, w), gated(x, w))
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


def refuses_here(x, i):
    return torch.ops.aten.index_select(torch.multinomial(x, 1), 0, i) * 2


# The same two lines further down.


def refuses_there(x, i):
    return torch.ops.aten.index_select(torch.multinomial(x, 1), 0, i) * 2


def test_an_entry_names_the_lines_of_who_loads_it(folder):
    for function in (refuses_here, refuses_there):
        with pytest.raises(RuntimeError, match="multinomial") as caught:
            run(function, torch.zeros(3, 3), torch.tensor([0]))
        line = function.__code__.co_firstlineno + 1
        assert any(f"{Path(__file__).name}:{line}" in note for note in caught.value.__notes__)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


def test_another_version_misses(folder, monkeypatch):
    x, w = inputs()
    run(gated, x, w)
    known = versions.versions()
    monkeypatch.setattr(cache_key, "versions", lambda: {**known, "torch": "9.9"})
    monkeypatch.setattr(trace_cache, "versions", lambda: {**known, "torch": "9.9"})
    run(gated, x, w)
    assert counted() == {"miss": 2, "stored": 2}


def test_what_triton_reads_in_the_environment_is_a_version(monkeypatch):
    known = versions.versions()
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    assert versions.versions() == known
    monkeypatch.setenv("TRITON_F32_DEFAULT", "tf32")
    assert versions.versions() != known


def test_another_schema_of_a_users_operator_misses(folder):
    x = torch.randn(3)
    for signature in ("(Tensor x, float scale) -> Tensor", "(Tensor x, *, float scale) -> Tensor"):
        with torch.library._scoped_library("bascule_cache_test", "DEF") as library:
            library.define(f"scaled{signature}")
            library.impl("scaled", lambda x, scale: x * scale, "CompositeExplicitAutograd")
            library.impl("scaled", lambda x, scale: torch.empty_like(x), "Meta")
            torch.testing.assert_close(run(lambda x: torch.ops.bascule_cache_test.scaled(x, scale=2.0), x), x * 2)
    assert counted() == {"miss": 2, "stored": 2}


# Whose files count


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


def processes(folder, number):
    environment = {**os.environ, "BASCULE_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([sys.executable, str(PROCESS)], env=environment, stdout=subprocess.PIPE) for _ in range(number)
    ]
    results = [json.loads(process.communicate(timeout=200)[0]) for process in running]
    assert all(process.returncode == 0 for process in running)
    return results


def test_processes_share_it(folder):
    first, second = processes(folder, 2)  # at once, on an empty cache
    third = processes(folder, 1)[0]
    assert third["cache"] == {"hit": 2} and third["traces"] == {"hit": 1}
    assert third["compiler"] == [], "what is loaded needs no compiler"
    assert first["out"] == second["out"] == third["out"] and first["grad"] == second["grad"] == third["grad"]
    assert len(entries(folder, "graphs")) == 2, "no unfinished file is left"


# When it is not for a graph

BYPASSED = {
    "the option": ({"cache": False}, "the option 'cache' is off"),
    "a dump": ({"dump": "DIRECTORY"}, "a dump was asked for"),
    "verification": ({"verify": True}, "verification was asked for"),
}


@pytest.mark.parametrize("what", BYPASSED)
def test_bypassed(folder, tmp_path, what):
    options, reason = BYPASSED[what]
    options = {name: str(tmp_path / "dump") if value == "DIRECTORY" else value for name, value in options.items()}
    run(gated, *inputs(), **options)
    assert counted() == {f"bypass: {reason}": 1}
    assert not folder.exists()


def test_bypassed_where_the_environment_says_so(monkeypatch):
    monkeypatch.setenv("BASCULE_CACHE_DIR", "")
    run(gated, *inputs())
    assert counted() == {"bypass: BASCULE_CACHE_DIR is empty": 1}


def test_bypassed_where_torch_says_so(folder):
    with torch.compiler.config.patch(force_disable_caches=True):
        run(gated, *inputs())
    assert counted() == {"bypass: torch.compiler.config.force_disable_caches": 1}


def test_bypassed_for_a_pass_of_the_users_own(folder):
    bascule.dialect.passes.add(Raises)
    with pytest.raises(bascule.CompilerError):
        run(gated, *inputs(), pipeline="torch-to-bascule,test-raises")
    assert counted() == {"bypass: 'test-raises' is a pass of the user's own": 1}


# Commands and limits


def test_stat_and_clear(folder, capsys):
    run(gated, *inputs())
    assert command.main(["cache", "stat"]) == 0
    told = capsys.readouterr().out
    assert str(folder) in told and "graphs: 1 entries" in told and "traces: 1 entries" in told
    assert command.main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "2 entries deleted\n"
    assert entries(folder, "graphs") == []


def test_the_least_used_go_first_of_all_caches(folder):
    keys = [f"{number:02x}" * 32 for number in range(8)]
    places = [Directory(folder / FOLDERS[age % len(FOLDERS)]) for age in range(len(keys))]
    for age, (directory, key) in enumerate(zip(places, keys)):
        directory.write(key, bytes(1000))
        os.utime(directory.path(key), (age, age))
    assert places[0].read(keys[0]) is not None  # which makes it the one used last
    trim(folder, 8000)
    assert len(list(folder.rglob("??/*"))) == 8, "within the limit nothing goes"
    trim(folder, 5000)
    assert [key for directory, key in zip(places, keys) if directory.read(key) is not None] == [
        keys[0],
        keys[6],
        keys[7],
    ]


def test_a_kernel_that_is_used_is_not_the_next_to_go(folder):
    kernels, graphs = KernelCache(folder / "kernels"), Directory(folder / "graphs")
    key, other = "ab" * 32, "cd" * 32
    kernels.put(key, MachineCode(bytes(2000), "entry", 4, 0, ""))
    graphs.write(other, bytes(2000))
    os.utime(folder / "kernels" / key[:2] / key, (1, 1))
    os.utime(graphs.path(other), (2, 2))
    assert kernels.get(key) is not None
    trim(folder, 4000)
    assert kernels.get(key) is not None and graphs.read(other) is None


def test_storing_keeps_to_the_limit(folder, monkeypatch):
    monkeypatch.setenv("BASCULE_CACHE_LIMIT", "10000")
    kernels = KernelCache(folder / "kernels")
    for number in range(20):
        kernels.put(f"{number:02x}" * 32, MachineCode(bytes(1000), "entry", 4, 0, ""))
    monkeypatch.setattr(cache_directory, "_stored", 0)
    run(gated, *inputs())
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 30000
    assert len(list((folder / "kernels").rglob("??/*"))) < 8


def test_the_limit_is_the_environments(monkeypatch):
    assert cache_directory.limit() == 2 << 30
    monkeypatch.setenv("BASCULE_CACHE_LIMIT", "1000")
    assert cache_directory.limit() == 1000


@pytest.mark.parametrize("key", ["../../outside", "ab/../../../outside", "/outside", "", "..", "a\0b"])
def test_artifacts_are_put_nowhere_else(folder, tmp_path, key):
    outside = tmp_path / "outside"
    for place in (key, str(outside) if key == "/outside" else key):
        cache_artifacts.GraphArtifact(key=place, content=b"other").populate_cache()
    assert counted() == {"refused: no key of an entry": 2}
    assert not outside.exists() and not list(folder.rglob("outside*"))


def test_artifacts_carry_entries_to_another_machine(folder, tmp_path, monkeypatch):
    CacheArtifactManager.clear()  # what another test recorded under the same key would not be saved again
    x, w = inputs()
    run(gated, x, w)
    content, info = torch.compiler.save_cache_artifacts()
    assert len(info.artifacts[cache_artifacts.TYPE]) >= 1
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path / "elsewhere"))
    torch.compiler.load_cache_artifacts(content)
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


def test_source_that_changed_after_it_was_imported(tmp_path, monkeypatch):
    """What is at work then may be either, so that nothing is kept; nor does it matter how much processor time was spent before."""
    for name in ("layer_in_use", "layer_edited"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("import time\n")
    os.utime(tmp_path / "layer_in_use" / "__init__.py", (bascule.BEGAN - 0.5,) * 2)
    os.utime(tmp_path / "layer_edited" / "__init__.py", (bascule.BEGAN + 0.5,) * 2)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(versions, "LAYERS", ("layer_in_use",))
    assert len(versions._source_digest()) == 64
    monkeypatch.setattr(versions, "LAYERS", ("layer_in_use", "layer_edited"))
    with pytest.raises(NotKeyed, match="source changed"):
        versions._source_digest()
