"""The disk cache: what hits, what does not, and that nothing wrong is ever loaded."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from bascule.dialect.passes import Pass
from bascule.dialect.steering.hooks import Hooks
from bascule.frontend.aot.graph_key import NotKeyed
from bascule.frontend.conversion import out_overloads, registry, rewriter
from bascule.frontend.rules.support.operands import elementwise
from bascule.lowering.cpu.jit import object_file

import bascule
from bascule.cache import graph_key, trace_cache, versions
from bascule.cache.disk import directory
from bascule.cache.disk.entry_paths import GRAPHS, KINDS
from bascule.cache.disk.eviction import trim
from bascule.cache.stores.backed_store import BackedStore
from bascule.tools import main as command
from tests.cache.cached_calls import counted, entries, gated, inputs, run, store
from tests.compiler.raising_pass import Raises

PROCESS = Path(__file__).with_name("cached_process.py")


def test_the_second_compile_hits(folder):
    x, w = inputs()
    first, second = run(gated, x, w), run(gated, x, w)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}
    torch.testing.assert_close(first, gated(x, w))
    assert torch.equal(first, second)


def test_kernels_that_cannot_be_written_down_run(folder, monkeypatch):
    """The object code is read through a pipe, for which there may be no file descriptors left."""

    def no_descriptors():
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(object_file.os, "pipe", no_descriptors)
    x = torch.randn(5, 7)
    torch.testing.assert_close(torch.compile(torch.sin, backend="bascule")(x), x.sin())
    assert not entries(folder, GRAPHS)
    assert bascule.counters()["cache"][f"refused: [Errno {errno.EMFILE}] {os.strerror(errno.EMFILE)}"] == 1


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
    here = {"seconds": None, "name": None, "fx_passes": None}  # of this process: when, and which passes it took
    first, second = ({**vars(graph), **here} for graph in told)
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
    monkeypatch.setattr(graph_key, "versions", lambda: {**known, "torch": "9.9"})
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


def test_another_overload_of_a_users_operator_misses(folder):
    """A process has an overload that writes into given tensors, the next one does not."""
    x = torch.randn(3)
    for name, takes_out in (("bascule_out_test", True), ("bascule_out_test", False)):
        with torch.library._scoped_library(name, "DEF") as library:
            library.define("doubled(Tensor x) -> Tensor")
            library.impl("doubled", lambda x: x * 2, "CPU")
            library.impl("doubled", torch.empty_like, "Meta")
            if takes_out:
                library.define("doubled.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
                library.impl("doubled.out", lambda x, out: out.copy_(x * 2), "CPU")
            out_overloads.out_overload.cache_clear()
            found = run(lambda x: torch.ops.bascule_out_test.doubled(x + 1) * 3, x)
            torch.testing.assert_close(found, (x + 1) * 6)
    assert counted() == {"miss": 2, "stored": 2}


def test_numbers_have_the_dtype_that_is_the_default(folder):
    """Beside integers alone; whether traces are kept or not."""
    x, limit = torch.tensor([2**24 + 1, 2**24, 3]), 2**24 + 0.5

    def compared(x):
        return x > limit, x <= limit, torch.where(x > limit, 1, 0)

    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            for trace_cache in (True, False):
                found = run(compared, x, trace_cache=trace_cache)
                assert all(map(torch.equal, found, compared(x)))
    finally:
        torch.set_default_dtype(before)
    assert counted()["hit"] == 4


@pytest.fixture
def users_rule(monkeypatch):
    """Has a number's multiple in the place of an operator of the user's, by a rule."""
    monkeypatch.setattr(registry, "RULES", dict(registry.load_rules()))
    monkeypatch.setattr(registry, "_USERS", {})
    monkeypatch.setattr(registry, "load_rules", lambda: registry.RULES)
    monkeypatch.setattr(rewriter, "load_rules", lambda: registry.RULES)

    def use(number, version):
        registry.RULES.pop("bascule_rule_test.doubled.default", None)
        rule = registry.rule("bascule_rule_test.doubled.default", version=version)
        rule(lambda c, x: elementwise(c, lambda element: element * number, x))

    with torch.library._scoped_library("bascule_rule_test", "DEF") as library:
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", lambda x: x * 2, "CPU")
        library.impl("doubled", torch.empty_like, "Meta")
        yield use


@pytest.mark.parametrize("versions", [(None, None, None), ("1", "2", "1")], ids=["without versions", "with versions"])
def test_another_rule_of_the_users_misses(folder, users_rule, versions):
    x = torch.randn(3)

    def called(x):
        return torch.ops.bascule_rule_test.doubled(x)

    assert torch.equal(run(called, x), x * 2)
    for number, version in zip((3, 4, 3), versions):
        users_rule(number, version)
        torch.testing.assert_close(run(called, x), x * number)
    reason = "bypass: the rule of 'bascule_rule_test.doubled.default' has no version"
    more = {reason: 3} if versions[0] is None else {"hit": 1}
    stored = 1 if versions[0] is None else 3
    assert counted() == {"miss": stored, "stored": stored, **more}
    assert versions[0] is not None or bascule.counters()["traces"][reason] == 3


# Whose files count


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
    assert counted() == {"bypass: 'test-raises' is a pass of the user's own, without a version or a uuid": 1}


@dataclass(frozen=True)
class Keyed(Pass):
    """Does nothing; its code is what `version` says."""

    name: ClassVar[str] = "test-keyed"
    version: ClassVar[str] = "1"
    size: int = 1

    def run(self, module):
        pass


class KeyedHooks(Hooks):
    def __init__(self, told):
        self.told = told

    def uuid(self):
        return self.told


@pytest.mark.parametrize("trace_cache", [True, False])
def test_passes_of_the_users_own_with_a_version_hit(folder, monkeypatch, trace_cache):
    bascule.dialect.passes.add(Keyed)
    texts = [f"torch-to-bascule,test-keyed{{size={size}}},{','.join(bascule.pipelines.DEFAULT[1:])}" for size in (1, 2)]
    kind = "traces" if trace_cache else "cache"

    def ran(text):
        before = dict(bascule.counters().get(kind, {}))
        run(gated, *inputs(), pipeline=text, trace_cache=trace_cache)
        now = bascule.counters()[kind]
        return {what for what in now if now[what] != before.get(what, 0)} & {"hit", "miss"}

    assert [ran(text) for text in (texts[0], texts[0], texts[1], texts[0])] == [{"miss"}, {"hit"}, {"miss"}, {"hit"}]
    monkeypatch.setattr(Keyed, "version", "2")
    assert [ran(texts[0]), ran(texts[0])] == [{"miss"}, {"hit"}]


@pytest.mark.parametrize("trace_cache", [True, False])
def test_hooks_with_a_uuid_hit(folder, trace_cache):
    kind = "traces" if trace_cache else "cache"
    for uuid in ("a", "a", "b"):
        run(gated, *inputs(), hooks=KeyedHooks(uuid), trace_cache=trace_cache)
    counts = bascule.counters()[kind]
    assert (counts["miss"], counts["hit"]) == (2, 1)


@pytest.mark.parametrize("trace_cache", [True, False])
def test_bypassed_for_hooks_without_a_uuid(folder, trace_cache):
    run(gated, *inputs(), hooks=KeyedHooks(None), trace_cache=trace_cache)
    reason = "bypass: 'KeyedHooks' are hooks of the user's own, without a version or a uuid"
    assert bascule.counters()["cache"][reason] == 1
    assert not trace_cache or bascule.counters()["traces"][reason] == 1


def test_bypassed_for_a_pass_that_reads_a_file():
    text = "transform-preload-library{transform-library-paths=script.mlir},transform-interpreter"
    with pytest.raises(NotKeyed, match="'transform-preload-library' reads a file"):
        graph_key.users_code(bascule.dialect.passes.Pipeline.parse(text), bascule.Options())


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
    places = [store(folder, KINDS[age % len(KINDS)]) for age in range(len(keys))]
    for age, (kept, key) in enumerate(zip(places, keys)):
        kept.write(key, bytes(1000))
        os.utime(kept.path(key), (age, age))
    assert places[0].read(keys[0]) is not None  # which makes it the one used last
    trim(folder, 10000)
    assert len(list(folder.rglob("??/*"))) == 8, "within the limit nothing goes"
    trim(folder, 5000)
    assert [key for kept, key in zip(places, keys) if kept.read(key) is not None] == [keys[0], keys[6], keys[7]]


def test_storing_keeps_to_the_limit(folder, monkeypatch):
    monkeypatch.setenv("BASCULE_CACHE_LIMIT", "100000")
    kernels = store(folder, "kernels", 100000)
    for number in range(20):
        BackedStore(kernels).put(f"{number:02x}" * 32, bytes(9000))
    run(gated, *inputs())
    assert sum(found["bytes"] for found in list(directory.statistics().values())[1:]) <= 100000
    assert len(list((folder / "kernels").rglob("??/*"))) > 3


def test_the_folder_is_the_environments(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for text, place in (("~/kept", tmp_path / "kept"), (str(tmp_path), tmp_path), ("a/~", Path("a/~")), ("", None)):
        monkeypatch.setenv("BASCULE_CACHE_DIR", text)
        assert directory.root() == place
    monkeypatch.delenv("BASCULE_CACHE_DIR")
    assert directory.root() == tmp_path / ".cache" / "bascule"


def test_the_limit_is_the_environments(monkeypatch):
    assert directory.limit() == 2 << 30
    monkeypatch.setenv("BASCULE_CACHE_LIMIT", "1000")
    assert directory.limit() == 1000
    monkeypatch.setenv("BASCULE_CACHE_LIMIT", "1.5 GiB")
    assert directory.limit() == 3 << 29
    monkeypatch.setenv("BASCULE_CACHE_LIMIT", "500M")
    with pytest.warns(UserWarning, match=r"\$BASCULE_CACHE_LIMIT is '500M', which is no number of bytes"):
        assert directory.limit() == 2 << 30


def test_the_key_has_the_source_of_all_that_is_imported():
    """Of a checkout too, where a package may lie in two folders."""
    found = {path for path, _ in versions._sources()}
    imported = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "bascule"}
    assert len(imported) > 100
    assert not {name for name, file in imported.items() if file and file.endswith(".py") and Path(file) not in found}


def test_source_that_changed_after_it_was_imported(tmp_path, monkeypatch):
    """The source in memory may be either version, so that nothing is cached; nor does it matter how much processor time was spent before."""
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
