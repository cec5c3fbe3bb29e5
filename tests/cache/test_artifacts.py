"""Cache artifacts: what carries entries from process to process, and that nothing of unknown origin is kept, let alone run."""

import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from bascule.runtime.packages.container import pack, unpack
from torch.compiler._cache import CacheArtifactManager

import bascule
from bascule.cache import artifacts
from bascule.cache.artifacts import GraphArtifact, KernelArtifact, ScheduleArtifact, TraceArtifact
from bascule.cache.disk.signing import key_of, signed
from bascule.cache.stores import recorded as recorded_entries
from bascule.cache.stores.backed_store import store_of
from bascule.cache.stores.recorded import TYPES
from bascule.errors import CacheWarning
from tests.cache.cached_calls import counted, entries, gated, inputs, opened, run, store

PROCESS = Path(__file__).with_name("artifacts_process.py")
SECRET = "a secret of two machines, 32 or more"


@pytest.fixture(autouse=True)
def untold(monkeypatch):
    """No test has warned."""
    monkeypatch.setattr(artifacts, "_told", set())


def process(*arguments, folder, **environment):
    base = {name: value for name, value in os.environ.items() if not name.startswith("BASCULE_")}
    environment = {**base, "BASCULE_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1", **environment}
    command = [sys.executable, str(PROCESS), *map(str, arguments)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=300, check=True)
    return json.loads(done.stdout)


# From process to process


def test_they_are_carried_from_one_process_and_directory_to_another(tmp_path):
    """The second process imports nothing but PyTorch before it loads."""
    file, here, there = tmp_path / "artifacts", tmp_path / "here", tmp_path / "there"
    saved = process("save", file, folder=here, BASCULE_CACHE_KEY=SECRET)
    assert saved["traces"] == {"miss": 1, "stored": 1}
    loaded = process("load", file, folder=there, BASCULE_CACHE_KEY=SECRET)
    assert loaded["artifacts"] == {"bascule": 1, "bascule_traces": 1} and loaded["warnings"] == []
    assert loaded["cache"] == {"hit": 1} and loaded["traces"] == {"hit": 1}
    assert loaded["out"] == saved["out"]
    torch.testing.assert_close(torch.tensor(loaded["out"]), torch.tensor(loaded["want"]))
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    refused = process("look", file, "bascule", folder=tmp_path / "third", **off)
    assert refused["artifacts"] == {"bascule": 1, "bascule_traces": 1}, "to import bascule is enough"
    (warning,) = refused["warnings"]
    assert "BASCULE_CACHE_KEY" in warning and "BASCULE_TRUST_ARTIFACTS=1" in warning
    assert not list((tmp_path / "third").rglob("??/*"))


def test_importing_bascule_stays_cheap():
    code = """
import sys, bascule
assert "torch" not in sys.modules
import torch
known = torch.compiler._cache.CacheArtifactFactory._artifact_types
assert "bascule" in known and "bascule_traces" in known
heavy = [name for name in sys.modules if name.startswith(("bascule.", "torch._dynamo", "torch._inductor", "torch_mlir"))]
compat = ["bascule.compat", "bascule.compat.inductor", "bascule.compat.inductor.cache_artifacts"]
assert sorted(heavy) == ["bascule.cache", "bascule.cache.artifacts", *compat], heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# Whose artifacts count


class Runs:
    """Pickled, it makes a file where it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


def recorded(function, *args):
    """The artifacts that a call records, by the kind of entries: key and bytes."""
    with CacheArtifactManager.with_fresh_cache():
        run(function, *args)
        found = CacheArtifactManager._new_cache_artifacts
        return {
            kind: (found[name][0].key, found[name][0].content)
            for kind, name in ((name, TYPES[name]) for name in ("graphs", "traces"))
        }


def forged(content, file):
    """An entry of a trace that, read, makes `file`."""
    description, blobs = unpack(content)
    return pack(description, {**blobs, "result": pickle.dumps(Runs(file))})


FORGED = {
    "as entries were once": lambda content, name, key: content,
    "signed with another key": lambda content, name, key: signed(os.urandom(32), name, content),
    "signed with no key": lambda content, name, key: signed(b"", name, content),
    "signed with zeros": lambda content, name, key: signed(bytes(32), name, content),
    "signed for another key of an entry": lambda content, name, key: signed(key, f"traces/{'0' * 64}", content),
    "signed for another kind": lambda content, name, key: signed(key, name.replace("traces", "graphs"), content),
    "changed after it was signed": lambda content, name, key: signed(key, name, content[:-1] + b"\0") + b"\0",
    "nothing": lambda content, name, key: b"",
    "no content": lambda content, name, key: signed(key, name, content)[:48],
}


@pytest.mark.parametrize("how", FORGED)
def test_forged_artifacts_are_refused(folder, tmp_path, how):
    x, w = inputs()
    name, _ = recorded(gated, x, w)["traces"]
    (path,) = entries(folder, "traces")
    ran = tmp_path / "ran"
    content = forged(opened(path), ran)
    pickle.loads(pickle.dumps(Runs(ran)))
    ran.rmdir()  # as it would be made
    path.unlink()
    label = store(folder, "traces").name(name)
    with pytest.warns(CacheWarning, match="refused"):
        TraceArtifact(key=name, content=FORGED[how](content, label, key_of(folder))).populate_cache()
    assert not entries(folder, "traces")
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert not ran.exists()
    assert any("an artifact: " in reason for reason in bascule.counters()["traces"])


@pytest.mark.parametrize("secret", [None, SECRET])
def test_artifacts_that_are_signed_are_kept(folder, tmp_path, monkeypatch, secret):
    """With the key of the directory, or with the secret wherever it is."""
    if secret is not None:
        monkeypatch.setenv("BASCULE_CACHE_KEY", secret)
    x, w = inputs()
    made = recorded(gated, x, w)
    for kind in made:
        (path,) = entries(folder, kind)
        path.unlink()
    if secret is not None:
        monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path / "elsewhere"))
    GraphArtifact(*made["graphs"]).populate_cache()
    TraceArtifact(*made["traces"]).populate_cache()
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


@pytest.mark.parametrize(("kind", "artifact"), [("kernels", KernelArtifact), ("schedules", ScheduleArtifact)])
def test_kernels_and_schedules_are_artifacts(folder, tmp_path, monkeypatch, kind, artifact):
    """Those that this process found, and those that it kept."""
    key, content = "ab" * 32, b"content"
    for doing in (lambda: store_of(kind).put(key, content), lambda: store_of(kind).find([key])):
        with CacheArtifactManager.with_fresh_cache():
            doing()
            (found,) = CacheArtifactManager._new_cache_artifacts[artifact.type()]
        assert (type(found), found.key) == (artifact, key)
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path / "elsewhere"))
    with pytest.warns(CacheWarning, match="refused"):
        found.populate_cache()
    assert store_of(kind).find([key]) == {}
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(folder))
    (path,) = entries(folder, kind)
    path.unlink()
    found.populate_cache()
    assert store_of(kind).find([key]) == {key: content}


def test_whoever_trusts_them_says_so(folder, tmp_path, monkeypatch):
    x, w = inputs()
    made = recorded(gated, x, w)
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("BASCULE_TRUST_ARTIFACTS", "yes")
    with pytest.warns(CacheWarning, match="BASCULE_TRUST_ARTIFACTS=1") as told:
        for _ in range(3):
            GraphArtifact(*made["graphs"]).populate_cache()
    assert len(told) == 1
    monkeypatch.setenv("BASCULE_TRUST_ARTIFACTS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GraphArtifact(*made["graphs"]).populate_cache()
        TraceArtifact(*made["traces"]).populate_cache()
    torch.testing.assert_close(run(gated, x, w), gated(x, w))
    assert counted()["hit"] == 1


def test_a_secret_that_can_be_guessed_signs_nothing(folder, monkeypatch):
    x, w = inputs()
    made = recorded(gated, x, w)
    monkeypatch.setenv("BASCULE_CACHE_KEY", "secret")
    with pytest.warns(CacheWarning, match="fewer than 32 characters"):
        GraphArtifact(*made["graphs"]).populate_cache()
    recorded_entries._warn.cache_clear()
    with (
        CacheArtifactManager.with_fresh_cache(),
        pytest.warns(CacheWarning, match="save_cache_artifacts has nothing of Bascule's: .* fewer than 32") as told,
    ):
        run(gated, x, w)
        assert not CacheArtifactManager._new_cache_artifacts
    assert sum("save_cache_artifacts" in str(one.message) for one in told) == 1


@pytest.mark.parametrize("key", ["../../outside", "ab/../../../outside", "/outside", "", "..", "a\0b"])
def test_they_are_put_nowhere_else(folder, tmp_path, key):
    outside = tmp_path / "outside"
    for place in (key, str(outside) if key == "/outside" else key):
        entry = signed(key_of(folder), f"graphs/{place}", b"other")
        GraphArtifact(key=place, content=entry).populate_cache()
    assert counted() == {"refused: no key of an entry": 2}
    assert not outside.exists() and not list(folder.rglob("outside*"))


def test_a_pytorch_that_keeps_its_artifacts_elsewhere_is_imported_all_the_same():
    """`import torch` calls what registers ours."""
    program = """
import warnings, torch, torch.compiler._cache, sys
import bascule
del sys.modules["bascule.cache.artifacts"], torch.compiler._cache.CacheArtifactFactory
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    bascule.register_artifacts()
assert "save_cache_artifacts" in str(told[0].message), told
"""
    subprocess.run([sys.executable, "-c", program], check=True)
