"""Compiles kernel functions given as text, calls them on random inputs, and compares with the reference interpreter."""

import ctypes

import torch
from bascule.dialect.interpreter import interpret
from bascule.dialect.interpreter.inputs import random_inputs
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.lowering.cpu import CompiledKernels, compile_kernels, host

WIDTHS = (512, 256, 128)  # bits of a vector; code for narrower ones runs on wider machines
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 1e-2, torch.float16: 2e-3}


def runnable_widths() -> list[int]:
    return [bits for bits in WIDTHS if bits <= host().vector_bits]


def call(address: int, arguments: list, threads: int) -> None:
    """Calls `void name(int64_t symbols.., void *buffers.., int64_t threads)`."""
    types, values = [], []
    for argument in arguments:
        tensor = isinstance(argument, torch.Tensor)
        types.append(ctypes.c_void_p if tensor else ctypes.c_int64)
        values.append(argument.data_ptr() if tensor else argument)
    ctypes.CFUNCTYPE(None, *types, ctypes.c_int64)(address)(*values, threads)


def scheduled_and_compiled(module: ir.Module, bits: int | None = None) -> CompiledKernels:
    """`bits` of a vector: those of the schedule and of the instructions; None: the machine's."""
    ScheduleKernels(vector_bits=bits or host().vector_bits).run(module)
    return compile_kernels(module, vector_bits=bits)


def copies(inputs: list) -> list:
    def copy(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage().clone()
        return torch.empty(0, dtype=x.dtype).set_(storage, x.storage_offset(), x.shape, x.stride())

    return [copy(x) if isinstance(x, torch.Tensor) else x for x in inputs]


def interpreted(module: ir.Module, inputs: list) -> list:
    """`inputs` as the interpreter leaves copies of them."""
    want = copies(inputs)
    interpret(module, want, "k")
    return want


def same(got: list, want: list) -> None:
    for x, y in zip(got, want):
        if isinstance(x, torch.Tensor):
            tolerance = TOLERANCE.get(x.dtype, 0)
            torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)


def check(
    text: str, *, shapes: dict | None = None, bits: int | None = None, seed: int = 0, inputs: list | None = None
) -> None:
    """The kernel function `k` of `text` leaves in its arguments what the interpreter leaves, on one thread and on two."""
    with context():
        module = ir.Module.parse(text)
        inputs = random_inputs(module, "k", seed=seed, shapes=shapes) if inputs is None else inputs
        compiled = scheduled_and_compiled(module, bits)
        want = interpreted(module, inputs)
        for threads in (1, 2):
            got = copies(inputs)
            call(compiled.addresses["k"], got, threads)
            same(got, want)


def kernel(arguments: str, body: str, ranges: str, indices: str = "", symbols: str = "()") -> str:
    """The text of kernel function `k`. `indices`: "%i, %j"; `ranges`: "4, 5"."""
    block = f"^bb0({', '.join(f'{i.strip()}: index' for i in indices.split(','))}):" if indices else ""
    return f"""
    func.func private @k({arguments}) {{
      "bascule.kernel"() ({{ {block}
        {body}
        "bascule.yield"() : () -> ()
      }}) {{ranges = affine_map<{symbols if symbols == "()" else "()" + symbols} -> ({ranges})>}} : () -> ()
      return
    }}"""


def loop(
    name: str, indices: str, body: str, ranges: str, *, results: str = "", attributes: str = "", types: str = "()"
) -> str:
    """A loop op inside a kernel. `results`: "%r = "; `types`: what it gives."""
    block = ", ".join(f"{i.strip()}: index" for i in indices.split(","))
    attributes = f"{attributes}, " if attributes else ""
    return f"""{results}"bascule.{name}"() ({{ ^bb0({block}):
        {body}
      }}) {{{attributes}ranges = affine_map<() -> ({ranges})>}} : () -> {types}"""
