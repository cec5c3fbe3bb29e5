"""Kernels of every kind through Triton to machine code, without a GPU."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from bascule.dialect.errors import CompilerError, UserError
from bascule.lowering.triton import compile_kernel, compile_kernels
from bascule.lowering.triton.compile import compilation
from bascule.lowering.triton.compile.kernel_cache import KernelCache
from bascule.lowering.triton.kernels.triton_kernel import TritonKernel

from tests.lowering.triton.check import cubins, lowered, program

i = torch.randint(0, 8, (8, 33))
x, y = torch.randn(8, 33), torch.randn(8, 33)
half, wide = x.bfloat16(), x.double()

KINDS = {
    "pointwise": (lambda x, w: (F.gelu(x) + w).relu(), x, torch.randn(33)),
    "row": (lambda x, w: F.layer_norm(x, (33,), w), half, torch.randn(33).bfloat16()),
    "softmax": (lambda x: F.softmax(x, -1), x),
    "columns": (lambda x: (x.sum(0), x.amax(0)), x),
    "positions": (lambda x: (x.argmax(1), (x > 0).any(1), (x > 0).all(1), x.prod(1)), x),
    "f64": (lambda x: (x.amax(1), x.var(1), x.exp().sum(1), x.sqrt() / 3), wide),
    "bytes": (lambda x: (x.amax(1), x.sum(1), x // 3), (x * 50).abs().to(torch.uint8)),
    "scan": (lambda x: torch.cumsum(x, 1), x),
    "guards": (lambda x: F.pad(x, (1, 2)).flip(0), x),
    "scatter": (lambda x, i, v: x.scatter_add(0, i, v), x, i, y),
    "extremes": (lambda x, i, v: x.scatter_reduce(0, i, v, "amax"), x, i, y),
    "gather": (lambda x, i: F.embedding(i, x), x, i),
    "put": (lambda x, i, v: x.scatter(0, i, v), x, i, y),
    "products": (lambda x, i, v: x.scatter_reduce(0, i, v, "prod"), x, i, y),
    "transposed": (lambda x, y: x.t() + y, x, torch.randn(33, 8)),
    "running": (lambda x: (*torch.cummax(x, 1), torch.logcumsumexp(x, 1), x.cumprod(0)), x),
    "optimizer": (lambda *ps: [p - p.exp() * 0.1 for p in ps], *(torch.randn(n, 33) for n in range(1, 9))),
}
WALKED = {"row", "softmax", "columns", "positions"}


@pytest.mark.parametrize("kind", KINDS)
def test_compiles(kind):
    function, *inputs = KINDS[kind]
    assert all(cubins(function, *inputs))


@pytest.mark.parametrize("kind", sorted(WALKED))
def test_walked_rows_compile(kind):
    function, *inputs = KINDS[kind]
    assert all(cubins(function, *inputs, step=16, tile=4))


@pytest.mark.parametrize("capability", [80, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_other_architectures(kind, capability):
    function, *inputs = KINDS[kind]
    assert all(cubins(function, *inputs, capability=capability))


FUNCTIONS = {
    "first": lambda x: (x.exp(), x.expm1(), x.log(), x.log1p(), x.log2(), x.log10(), x.exp2(), x.sqrt(), x.rsqrt()),
    "circular": lambda x: (x.sin(), x.cos(), x.tan(), x.asin(), x.acos(), x.atan(), torch.atan2(x, x + 1)),
    "hyperbolic": lambda x: (x.sinh(), x.cosh(), x.tanh(), x.asinh(), x.acosh(), x.atanh(), x.erf(), x.erfc()),
    "rounding": lambda x: (
        x.floor(),
        x.ceil(),
        x.round(),
        x.trunc(),
        x.abs(),
        -x,
        x.sign(),
        x.fmod(3),
        x.copysign(x + 1),
    ),
    "tests": lambda x: (
        x.isnan(),
        x.isinf(),
        x.isfinite(),
        x.maximum(x + 1),
        x.fmin(x + 1),
        x.pow(2.5),
        x.reciprocal(),
    ),
    "conversions": lambda x: (
        x.int(),
        x.long(),
        x.to(torch.int8),
        x.half(),
        x.bfloat16(),
        x.double(),
        x.float(),
        x.bool(),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_compile(name, dtype):
    assert all(cubins(FUNCTIONS[name], torch.randn(40).to(dtype)))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64], ids=str)
def test_integers_compile(dtype):
    x = torch.arange(1, 60).to(dtype)
    assert all(cubins(lambda x: (x * 3, x // 7, x % 7, x << 1, x >> 1, x.abs(), x.float(), x.maximum(x + 1), ~x), x))


def test_dynamic_sizes_compile():
    kernels = lowered(program(lambda x: F.softmax(x, -1) + 1, x, tracing_mode="symbolic"))
    assert all(compile_kernel(kernel, 90).asm["cubin"] for kernel in kernels.values())


def test_wide_loads():
    """A flat kernel over aligned buffers reads 16 bytes at a time, whatever broadcasts into it."""
    (kernel,) = lowered(program(lambda x, w: x * w, torch.randn(64, 128), torch.randn(128))).values()
    assert "ld.global.v4.b32" in compile_kernel(kernel, 90).asm["ptx"]


@pytest.mark.parametrize("kind", ["row", "softmax", "columns", "scatter", "optimizer"])
def test_kernels_wait_before_they_touch_memory(kind):
    """So that they may be started early, on architectures that know of it."""
    function, *inputs = KINDS[kind]
    kernels = lowered(program(function, *inputs)).values()
    memory = re.compile(r"\b(?:ld|st|atom|red|cp\.async)\.(?:global|shared)\b")
    for kernel in kernels:
        ptx = compile_kernel(kernel, 90).asm["ptx"]
        assert ptx.count("griddepcontrol.wait") == 1 and ptx.index("griddepcontrol.wait") < memory.search(ptx).start()
        assert "griddepcontrol" not in compile_kernel(kernel, 80).asm["ptx"]
    nowhere = KernelCache(None)
    for capability in (80, 90):
        codes = compile_kernels(list(kernels), capability, nowhere).values()
        assert {code.early for code in codes} == {capability >= 90}


def test_fewer_stages_where_shared_memory_ends(monkeypatch):
    """Triton tells what it has beside the pieces under way when it has compiled."""
    tried = []

    def compiled(kernel, capability, run):
        tried.append((kernel.stages, kernel.ttir))
        made = SimpleNamespace(shared=70_000 * kernel.stages, name="k", num_warps=8)
        return SimpleNamespace(metadata=made, asm={"cubin": b""})

    monkeypatch.setattr(compilation, "compile_kernel", compiled)
    kernel = TritonKernel("k", "scf.for {tt.num_stages = 5 : i32}", None, 8, 5)
    assert compilation.machine_code(kernel, 90).shared == 210_000
    assert [stages for stages, _ in tried] == [5, 4, 3] and "tt.num_stages = 3 :" in tried[-1][1]
    with pytest.raises(CompilerError, match="wants 70000 bytes of shared memory"):
        compilation.machine_code(kernel, 75)


def test_the_users_line_reaches_the_machine_code():
    (kernel,) = lowered(program(lambda x: x * 2, torch.randn(64, 128))).values()
    assert "aten.mul" in kernel.ttir


def test_one_kernel_that_does_not_compile_leaves_the_others():
    kernels = lowered(program(lambda x, w: (x @ w).exp() @ (w * 2), torch.randn(64, 64), torch.randn(64, 64)))
    first, *others = kernels.values()
    assert others
    bad = replace(first, ttir=first.ttir.replace("tt.return", "tt.unknown_operation"))
    refused = {}
    found = compile_kernels([bad, *others], 90, KernelCache(None), refused.__setitem__)
    assert set(found) == {kernel.name for kernel in others} and all(code.cubin for code in found.values())
    assert list(refused) == [first.name] and isinstance(refused[first.name], CompilerError)
    with pytest.raises(CompilerError, match=first.name):
        compile_kernels([bad, *others], 90, KernelCache(None))


def test_an_unknown_architecture_concerns_all_kernels():
    kernels = list(lowered(program(lambda x: x * 2, torch.randn(64))).values())
    with pytest.raises(UserError, match="sm_77"):
        compile_kernels(kernels, 77, KernelCache(None), lambda name, error: None)
