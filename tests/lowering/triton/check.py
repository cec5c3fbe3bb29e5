"""How the Triton lowering is tested: a function's kernels, as TTIR, are run by the TTIR interpreter and compared with eager."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from bascule.dialect.interpreter.entry import choose
from bascule.dialect.interpreter.frame import Frame, Scope
from bascule.dialect.interpreter.values import Buffer
from bascule.dialect.ir import context
from bascule.dialect.ir.attributes import ScheduleAttr
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.conversion.context import Asked
from bascule.frontend.conversion.rewriter import convert_module
from bascule.frontend.importer.graph import import_graph
from bascule.lowering.triton import ToTriton, TritonKernel, compile_kernel, triton_kernels
from bascule.lowering.triton.interpreter import Memory, run_kernel
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

PASSES = (
    "cse,fold-views,simplify-indexing,inline-producers,drop-roundings,canonicalize,cse,form-kernels,cse,"
    "flatten-kernels{target=cuda},group-launches{target=cuda},online-softmax{machine},schedule-kernels{machine},order-program,bufferize-kernels"
)
TOLERANCE = {torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-3}, torch.float16: {"rtol": 2e-3, "atol": 1e-4}}


def program(
    function: Callable,
    *inputs: torch.Tensor,
    tracing_mode: str = "fake",
    registers: int = 65536,
    machine: int = 90,
    **schedule: Any,
) -> ir.Module:
    """The program stage of `function`, for multiprocessors of `registers` and of compute capability `machine`; `schedule` changes every kernel's
    schedule, see `edit`."""
    gm = make_fx(function, tracing_mode=tracing_mode, decomposition_table=decomposition_table())(*inputs)
    fake = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    module = import_graph(gm, fake, context=context()).module
    convert_module(module, Asked("error"))
    options = f"{{target=cuda registers={registers} capability={machine}}}"
    Pipeline.parse(PASSES.replace("{machine}", options)).run(module)
    if schedule:
        edit(module, **schedule)
    return module


def edit(
    module: ir.Module, *, tile: int | None = None, step: int | None = None, walks: dict | None = None, **numbers: int
) -> None:
    """Changes the schedules of all kernels: points along the last axis, the step of loops with other keys of theirs, and keys by their names."""
    with module.context:
        i64 = ir.IntegerType.get_signless(64)

        def stepped(loops: ir.ArrayAttr) -> ir.ArrayAttr:
            changed = []
            for loop in loops:
                keys = {entry.name: entry.attr for entry in ir.DictAttr(loop)}
                if keys["step"].value > 1:
                    changes = {"step": step, "along": -1, **(walks or {})}
                    keys |= {name: ir.IntegerAttr.get(i64, value) for name, value in changes.items()}
                changed.append(ir.DictAttr.get({**keys, "loops": stepped(keys["loops"])}))
            return ir.ArrayAttr.get(changed)

        def changed(config: ir.DictAttr) -> dict[str, ir.Attribute]:
            keys = {entry.name: entry.attr for entry in config}
            if tile is not None and len(keys["tile"]):
                keys["tile"] = ir.DenseI64ArrayAttr.get([*list(keys["tile"])[:-1], tile])
            if step is not None:
                keys["loops"] = stepped(keys["loops"])
            return keys

        for kernel in filter(None, map(kernel_op, functions(module))):
            config = ir.DictAttr(kernel.attributes["schedule"].config)
            keys = {entry.name: entry.attr for entry in config}
            if "parts" in keys:
                keys["parts"] = ir.ArrayAttr.get([ir.DictAttr.get(changed(ir.DictAttr(p))) for p in keys["parts"]])
            else:
                keys = changed(config)
            keys |= {name: ir.IntegerAttr.get(i64, value) for name, value in numbers.items()}
            kernel.attributes["schedule"] = ScheduleAttr.get(ir.DictAttr.get(keys))


def lowered(module: ir.Module) -> dict[str, TritonKernel]:
    with module.context, ir.Location.unknown():
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
        ToTriton().run(copy)
        assert copy.operation.verify()
        return {kernel.name: kernel for kernel in triton_kernels(copy)}


@cache
def _stored_only(argument: ir.Value) -> bool:
    """Whether a kernel only stores into the buffer: it may start without contents."""
    users = [use.owner.operation for use in argument.uses]
    return all(user.name == "bascule.store" and "mode" not in user.attributes for user in users)


def run(module: ir.Module, inputs: list, symbols: tuple[int, ...] = ()) -> list[torch.Tensor]:
    """Runs the graph function of a program-stage module, kernels as TTIR."""
    kernels = lowered(module)
    with module.context:
        table = ir.SymbolTable(module.operation)

        def call(op: ir.Operation, operands: list) -> list:
            name = op.attributes["callee"].value
            parameters = table[name].operation.regions[0].blocks[0].arguments
            arguments = [
                Memory(value.tensor, written=not _stored_only(parameter)) if isinstance(value, Buffer) else int(value)
                for parameter, value in zip(parameters, operands)
            ]
            run_kernel(kernels[name], arguments)
            return []

        block = choose(module, None).regions[0].blocks[0]
        frame = Frame(call, list(symbols), {}, [])
        values = [torch.tensor(symbol) for symbol in symbols]
        values += [Buffer(value, value.storage_offset()) for value in inputs]
        _, results = frame.block(block, values, Scope())
        return [value.tensor for value in results]


def check(function: Callable, *inputs: torch.Tensor, tolerance: dict | None = None, **schedule: int) -> None:
    """`function` through TTIR gives what eager gives; each of its kernels compiles."""
    want = function(*(x.clone() for x in inputs))
    want = list(want) if isinstance(want, tuple | list) else [want]
    module = program(function, *inputs, **schedule)
    got = run(module, list(inputs))
    for w, g in zip(want, got, strict=True):
        assert_close(g, w, equal_nan=True, **(tolerance or TOLERANCE.get(w.dtype, {})))


def cubins(function: Callable, *inputs: torch.Tensor, capability: int = 90, **schedule: int) -> list[bytes]:
    kernels = lowered(program(function, *inputs, **schedule))
    return [compile_kernel(kernel, capability).asm["cubin"] for kernel in kernels.values()]
