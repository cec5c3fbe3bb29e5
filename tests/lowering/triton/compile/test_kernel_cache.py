"""Kernels to machine code: in parallel, once each, and kept on disk whatever happens to the disk."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from bascule.dialect.errors import CompilerError, UserError
from bascule.lowering.triton import TritonKernel, compile_kernels
from bascule.lowering.triton.compile import parallel
from bascule.lowering.triton.compile.kernel_cache import KernelCache, MachineCode, key_of

from bascule.cache.disk.store import Store
from bascule.cache.stores.backed_store import BackedStore
from bascule.errors import CacheWarning

CODE = MachineCode(b"\x7fELF\n\x00cubin\n" * 50, "softmax_0", 8, 4096, "model.py:3:0")

TTIR = """
module {
  tt.func public @NAME(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %p = tt.addptr %xs, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %v = tt.load %p : tensor<128x!tt.ptr<f32>>
    %w = arith.addf %v, %v : tensor<128xf32>
    tt.store %p, %w : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""


def kernel(name="twice", **changes):
    whole = TritonKernel(name, TTIR.replace("NAME", name), None, 4, 2, "model.py:7:0")
    return replace(whole, **changes)


@pytest.fixture
def cache(tmp_path):
    return KernelCache(BackedStore(Store(tmp_path, "kernels", 1 << 30)))


@pytest.fixture
def compiled(monkeypatch):
    """The names of the kernels that Triton has been asked for."""
    names, real = [], parallel.machine_code

    def counting(kernel, capability):
        names.append(kernel.name)
        return real(kernel, capability)

    monkeypatch.setattr(parallel, "machine_code", counting)
    return names


def entries(cache):
    return [path for path in (cache.store.local.root / "kernels").rglob("*") if path.is_file()]


# The cache.


def test_an_entry_comes_back(cache):
    key = key_of("text")
    assert cache.find([key]) == {}
    cache.put(key, CODE)
    assert cache.find([key, key_of("other")]) == {key: CODE}
    assert len(entries(cache)) == 1  # nothing unfinished is left


def test_a_key_covers_text_and_conditions():
    keys = [key_of("a"), key_of("b"), key_of("a", capability=90), key_of("a", capability=80), key_of("a", warps=4)]
    assert len(set(keys)) == len(keys)
    assert key_of("a", warps=4, capability=90) == key_of("a", capability=90, warps=4)


@pytest.mark.parametrize("content", [b"", b"[1]\n", b"1\n", b"{}\n", b'{"odd": 1}\n', b"\xff\n", b'{"entry": "e"'])
def test_what_is_no_kernel_is_not_used(cache, content):
    cache.store.put(key_of("text"), content)
    assert cache.find([key_of("text")]) == {}


def test_a_key_leaves_out_where_the_users_source_stands():
    text = 'arith.addf %a, %b : f32 loc("aten.add.Tensor"("NAME":LINE:4))'
    moved = [text.replace("NAME", name).replace("LINE", line) for name, line in (("m.py", "3"), ('a "b".py', "14"))]
    assert key_of(moved[0]) == key_of(moved[1].replace('"b"', r"\22b\22"))
    assert key_of(moved[0]) != key_of(moved[0].replace("aten.add", "aten.sub"))


# Compilation.


def test_kernels_become_machine_code(cache, compiled):
    codes = compile_kernels([kernel("a"), kernel("b", warps=8)], 90, cache)
    assert codes.keys() == {"a", "b"}
    for name, code in codes.items():
        assert code.cubin.startswith(b"\x7fELF") and name.encode() in code.cubin
        assert (code.entry, code.warps, code.location) == (name, {"a": 4, "b": 8}[name], "model.py:7:0")
    assert sorted(compiled) == ["a", "b"]


def test_a_second_time_nothing_is_compiled(cache, compiled):
    kernels = [kernel("a"), kernel("b")]
    first = compile_kernels(kernels, 90, cache)
    assert len(compiled) == 2
    assert compile_kernels(kernels, 90, cache) == first
    assert len(compiled) == 2


@pytest.mark.parametrize("change", ["warps", "stages", "capability", "text", "triton", "environment"])
def test_what_changes_the_code_changes_the_key(cache, compiled, monkeypatch, change):
    compile_kernels([kernel()], 90, cache)
    other, capability = kernel(), 90
    if change in ("warps", "stages"):
        other = replace(other, **{change: 1})
    elif change == "capability":
        capability = 80
    elif change == "text":
        other = replace(other, ttir=other.ttir.replace("addf", "mulf"))
    elif change == "triton":
        monkeypatch.setattr(parallel, "triton_version", lambda: "0.0")
    else:
        monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    compile_kernels([other], capability, cache)
    assert len(compiled) == 2


def test_equal_kernels_are_compiled_once(cache, compiled):
    """In one program, and in another with the same text whose user's line has moved."""
    compile_kernels([kernel(), kernel()], 90, cache)
    (code,) = compile_kernels([kernel(location="model.py:9:0")], 90, cache).values()
    assert compiled == ["twice"]
    assert code.location == "model.py:9:0"


def test_a_damaged_entry_is_compiled_again(cache, compiled):
    first = compile_kernels([kernel()], 90, cache)
    (path,) = entries(cache)
    path.write_bytes(path.read_bytes()[:-10])
    assert compile_kernels([kernel()], 90, cache) == first
    assert len(compiled) == 2
    assert compile_kernels([kernel()], 90, cache) == first
    assert len(compiled) == 2  # the entry has been mended


def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(CacheWarning, match="Not a directory"):
        codes = compile_kernels([kernel()], 90, KernelCache(BackedStore(Store(tmp_path / "file", "kernels", 1 << 30))))
    assert codes["twice"].cubin


def test_a_cache_of_tritons_that_cannot_be_written_does_not_matter(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file"))
    assert compile_kernels([kernel()], 90, KernelCache(None))["twice"].cubin
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / "file")


def test_a_kernel_that_does_not_compile_is_named(cache):
    bad = kernel("bad", ttir=kernel("bad").ttir.replace("arith.addf", "arith.addi"))
    with pytest.raises(CompilerError, match=r"kernel 'bad' \(model\.py:7:0\) for sm_90: "):
        compile_kernels([kernel("good"), bad], 90, cache)


def test_an_architecture_that_triton_refuses(cache):
    with pytest.raises(UserError, match="does not compile for sm_30"):
        compile_kernels([kernel()], 30, cache)


def test_a_warm_start_needs_no_triton(cache, tmp_path, monkeypatch):
    """Importing it takes longer than everything else that is left to do."""
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))
    first = compile_kernels([kernel()], 90, cache)["twice"]
    code = f"""
import sys
from bascule.lowering.triton import TritonKernel, compile_kernels
from bascule.targets.kernel_images import kernel_cache
code = compile_kernels([TritonKernel("twice", {TTIR.replace("NAME", "twice")!r}, None, 4, 2)], 90, kernel_cache(True))["twice"]
assert len(code.cubin) == {len(first.cubin)}
assert "triton" not in sys.modules, "imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
