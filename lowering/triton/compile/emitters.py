"""`bascule-opt --to-triton --emit=...`: what Triton makes of the kernels of a module, as text. Found through `bascule.emitters`."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from bascule.dialect.errors import CompilerError, UserError
from bascule.dialect.mlir import ir

from ..kernels.triton_kernel import TritonKernel, triton_kernels
from . import ptxas
from .compilation import compile_kernel

DEFAULT_TARGET = "sm_90"
# What moves data, waits for it, or computes slowly: the rest of a kernel's instructions is counted only.
NOTABLE = re.compile(
    r"(LDG|STG|LDS|STS|LDSM|STSM|LDL|STL|LDGSTS|RED|ATOM|ATOMG|BAR|SYNCS|SHFL|MUFU|UTMA\w+|UBLK\w+|[HIQ]G?MMA|DADD|DMUL|DFMA)\b"
)
OPCODE = re.compile(r"\t(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")


def ttgir(module: ir.Module, target: str) -> str:
    """Triton's GPU dialect, in which layouts and shared memory are decided."""
    return _each(module, target, lambda kernel, compiled, capability: compiled.asm["ttgir"])


def ptx(module: ir.Module, target: str) -> str:
    """The PTX that is handed to NVIDIA's assembler."""
    return _each(module, target, lambda kernel, compiled, capability: compiled.asm["ptx"])


def sass_report(module: ir.Module, target: str) -> str:
    """Registers, shared memory and spills of each kernel, and its instructions that move data or are slow, counted."""
    return _each(module, target, _report)


def _each(module: ir.Module, target: str, text_of: Callable[[TritonKernel, Any, int], str]) -> str:
    match = re.fullmatch(r"sm_(\d+)a?", target or DEFAULT_TARGET)
    if match is None:
        raise UserError(
            f"'{target}' is no GPU architecture", location="--target", hint="for example sm_80, sm_90, sm_100"
        )
    capability = int(match[1])
    kernels = triton_kernels(module)
    if not kernels:
        raise UserError("there is no Triton kernel in the module", location="--emit", hint="run --to-triton before it")
    texts = []
    for kernel in kernels:
        compiled = compile_kernel(kernel, capability)
        texts.append(f"// {kernel.title}, sm_{capability}\n{text_of(kernel, compiled, capability).rstrip()}\n")
    return "\n".join(texts)


def _report(kernel: TritonKernel, compiled: Any, capability: int) -> str:
    log = ptxas.log(compiled.asm["ptx"], capability)
    registers, spills = REGISTERS.search(log), SPILLS.search(log)
    if registers is None or spills is None:
        raise CompilerError(f"NVIDIA's assembler said nothing about {kernel.title}: {log}")
    stack, stores, loads = spills.groups()
    opcodes = OPCODE.findall(compiled.asm["sass"])
    notable = Counter(opcode for opcode in opcodes if NOTABLE.match(opcode) and opcode != "NOP")
    return "\n".join(
        [
            f"warps {compiled.metadata.num_warps}, registers {registers[1]} a thread, shared memory {compiled.metadata.shared} bytes",
            f"stack {stack} bytes, spilled: stores {stores} bytes, loads {loads} bytes",
            f"instructions {sum(opcode != 'NOP' for opcode in opcodes)}",
            *(f"  {count:5} {opcode}" for opcode, count in sorted(notable.items())),
        ]
    )
