"""Kernels compiled on several threads at once: what comes out, what fails, threads and forks beside it."""

import ctypes
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from bascule.dialect.errors import CompilerError
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.lowering import threads
from bascule.lowering.cpu import compile_kernels, host
from bascule.lowering.cpu.jit import compilation
from bascule.lowering.cpu.jit.fatal_errors import LlvmError
from bascule.lowering.cpu.jit.machine_code import MachineCode
from bascule.runtime.kernels.elf_loader import ObjectCode

from tests.lowering.cpu.harness import kernel

KERNELS = 5


def scaled(number: int) -> str:
    """The kernel `k<number>`: it multiplies 37 elements by `number`."""
    body = f"""%a = memref.load %x[%i] : memref<37xf32>
        %c = arith.constant {number}.0 : f32
        %b = arith.mulf %a, %c : f32
        "bascule.store"(%b, %o, %i) : (f32, memref<37xf32>, index) -> ()"""
    text = kernel("%x: memref<37xf32>, %o: memref<37xf32>", body, "37", "%i")
    return text.replace("@k(", f"@k{number}(")


def program() -> ir.Module:
    module = ir.Module.parse("\n".join(map(scaled, range(KERNELS))), context())
    ScheduleKernels(vector_bits=host().vector_bits).run(module)
    return module


def check(addresses: dict[str, int]) -> None:
    x = torch.randn(37)
    assert set(addresses) == {f"k{number}" for number in range(KERNELS)}
    for number in range(KERNELS):
        out = torch.full_like(x, float("nan"))
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(addresses[f"k{number}"])
        function(x.data_ptr(), out.data_ptr(), 1)
        assert torch.equal(out, x * number)


@pytest.mark.parametrize("parts", [1, 2, 3, 9])
def test_kernels_in_several_modules(parts: int, monkeypatch):
    monkeypatch.setattr(compilation, "_parts", lambda operations: parts)
    compiled = compile_kernels(program())
    assert len(compiled.parts) == min(parts, KERNELS)
    check(compiled.addresses)
    loaded = ObjectCode.load(compiled.object_code())
    assert len(loaded.memory) == len(compiled.parts)
    check(loaded.addresses)


def caught_signals() -> str:
    """As the kernel has them: Python does not see what a library installs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return "".join(line for line in lines if line.startswith(("SigCgt", "SigIgn")))


def test_object_code_needs_no_file_and_leaves_signals_alone():
    compiled, before = compile_kernels(program()), caught_signals()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        content = compiled.object_code()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught_signals() == before
    loaded = ObjectCode.load(content)  # its code lives as long
    check(loaded.addresses)


def test_object_files_cut_short_or_followed_by_other_bytes_are_refused(monkeypatch):
    from bascule.runtime.kernels.elf_loader import ObjectCodeError

    monkeypatch.setattr(compilation, "_parts", lambda operations: 2)
    code = compile_kernels(program()).object_code()
    for spoiled in (code[:-1], code[:-100], code + b"x", code + bytes(100)):
        with pytest.raises(ObjectCodeError):
            ObjectCode.load(spoiled)


def test_what_mlir_says_is_in_the_error():
    module = ir.Module.parse(
        'func.func @f(%x: f32) -> f32 { %y = "torch.nothing"(%x) : (f32) -> f32 return %y : f32 }',
        _permissive(),
    )
    with pytest.raises(CompilerError, match=r"3:25.*unregistered dialect"):
        MachineCode.of(str(module).encode(), [])


def _permissive() -> ir.Context:
    ctx = ir.Context()
    ctx.allow_unregistered_dialects = True
    return ctx


def test_a_failing_part_fails_the_whole(monkeypatch):
    monkeypatch.setattr(compilation, "_parts", lambda operations: 2)
    of = MachineCode.of

    def failing(bytecode: bytes, called):
        if b"k3" in bytecode:
            raise CompilerError("k3 is not for this machine")
        return of(bytecode, called)

    monkeypatch.setattr(MachineCode, "of", staticmethod(failing))
    with pytest.raises(CompilerError, match="k3 is not"):
        compile_kernels(program())
    refused = {}
    compiled = compile_kernels(program(), refuse=refused.__setitem__)
    assert set(refused) == {"k3"} and set(compiled.addresses) == {"k0", "k1", "k2", "k4"}


UNSELECTABLE = """func.func @_mlir_k3() -> i64 {
  %x = llvm.call_intrinsic "llvm.aarch64.get.fpcr"() : () -> i64
  return %x : i64
}"""


def refused_by_llvm(monkeypatch) -> None:
    """Compiles `program()`, of which LLVM has no instructions for `k3`. What runs meanwhile is told of no failure."""
    of = MachineCode.of
    monkeypatch.setattr(compilation, "_parts", lambda operations: 2)
    monkeypatch.setattr(
        MachineCode,
        "of",
        staticmethod(lambda bytecode, called: of(UNSELECTABLE.encode() if b"k3" in bytecode else bytecode, called)),
    )
    refused = {}
    compiled = compile_kernels(program(), refuse=refused.__setitem__)
    assert set(refused) == {"k3"} and set(compiled.addresses) == {"k0", "k1", "k2", "k4"}
    assert isinstance(refused["k3"], CompilerError) and "Cannot select" in str(refused["k3"])
    assert not threads._running, "a fork, and the end of the process, would wait for ever"


def test_what_llvm_would_end_the_process_for_refuses_one_kernel():
    """In a process of its own, which goes on, forks, and ends as any other."""
    program = f"""if True:
        import os, sys
        sys.path.insert(0, {os.getcwd()!r})
        import pytest
        from tests.lowering.cpu.jit import test_compilation
        for _ in range(2):
            with pytest.MonkeyPatch.context() as patch:
                test_compilation.refused_by_llvm(patch)
        compiled = test_compilation.compile_kernels(test_compilation.program())
        test_compilation.check(compiled.addresses)
        child = os.fork()
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print("went on")"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "went on\n", done.stderr


@pytest.mark.skipif(host().vector_bits < 512, reason="no registers of 512 bits")
def test_what_llvm_refuses_is_compiled_for_registers_of_half_the_width(monkeypatch):
    """Instructions of AVX-512, functions of libraries and accesses of single lanes are those of these registers too."""
    of, refused = MachineCode.of, []

    def failing(bytecode: bytes, called):
        if b"prefer-vector-width" not in bytecode:
            refused.append(bytecode)
            raise LlvmError("Cannot select")
        return of(bytecode, called)

    def function(x, i):
        y = torch.exp(x) + x.lgamma() + x.cos() + x.pow(2.5) + x.erfinv()
        return (
            y.softmax(-1),
            y.t().contiguous(),
            y[:, i],
            y.cumsum(1),
            y.half().tanh(),
            y[:, ::2] * 3,
            y.bfloat16().sum(0),
        )

    monkeypatch.setattr(MachineCode, "of", staticmethod(failing))
    x, i = torch.rand(40, 90) * 0.9 + 0.05, torch.randint(90, (20,))
    got = torch.compile(function, backend="bascule", options={"on_error": "raise"})(x, i)
    assert refused
    for one, other in zip(got, function(x, i), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2 if one.dtype.itemsize == 2 else 1e-5, atol=1e-5)


def test_twenty_threads(monkeypatch):
    monkeypatch.setattr(compilation, "_parts", lambda operations: 2)
    with ThreadPoolExecutor(20) as pool:
        for compiled in pool.map(lambda _: compile_kernels(program()), range(20)):
            check(compiled.addresses)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_beside_a_compile_leaves_a_child_that_compiles(monkeypatch):
    monkeypatch.setattr(compilation, "_parts", lambda operations: 2)
    programs = [program() for _ in range(4)]
    with ThreadPoolExecutor(1) as pool:
        beside = [pool.submit(compile_kernels, module) for module in programs[1:]]
        child = os.fork()
        if child == 0:
            status = 1
            try:
                compiled = compile_kernels(programs[0])
                check(compiled.addresses)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        for future in beside:
            check(future.result().addresses)
