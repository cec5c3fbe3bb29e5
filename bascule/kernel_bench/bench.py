"""The kernels of a dump, timed one by one: each graph runs once, and where it launches a kernel, that is launched again and again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from bascule.lowering.program import to_python

from ..debugging.run_program import call_program
from ..dialect.interpreter.launch import Parameter, parameters_of
from ..dialect.interrupts import pass_on
from ..dialect.ir.builders import symbols_of
from ..dialect.ir.functions import functions, kernel_op
from ..dialect.mlir import ir
from ..errors import UserError
from ..manifest.kernels import roles_of
from ..manifest.manifest import FILE
from ..options import make_options
from ..reporting.compile_record import Record
from ..targets.base import Target
from ..targets.cpu import Cpu
from ..targets.cuda import Cuda
from .checks import compared
from .dumps import DumpedGraph, graphs_in
from .inputs import arguments_for
from .launches import Call, WatchedFunctions, WatchedPlanner
from .limits import Gpu, Rates, work_of
from .timing import Memory, timed

SCHEMA, VERSION = "bascule/bench", 1


@dataclass(frozen=True)
class Asked:
    """`kernels`: the names of those to be timed, none: all. `repeat`: how many launches of each are measured, None: as many as take a while.
    `check`: compare each with the interpreter. `shapes`: sizes of symbols, for a dump without inputs."""

    kernels: Sequence[str] = ()
    repeat: int | None = None
    check: bool = False
    shapes: Mapping[str, int] = field(default_factory=dict)


def bench(folder: Path, asked: Asked) -> dict[str, Any]:
    """Records of all kernels of a dump that are `asked` for: those of the manifest, with `measured`. Raises `UserError`."""
    graphs = graphs_in(folder)
    known = dict.fromkeys(kernel["name"] for graph in graphs for kernel in graph.kernels)
    for name in asked.kernels:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise UserError(f"no graph of '{folder}' has a kernel '{name}'", location="--kernel", hint=hint)
    told = [_timed(graph, asked) for graph in graphs if not asked.kernels or _names(graph) & {*asked.kernels}]
    return {"schema": SCHEMA, "version": VERSION, "threads": torch.get_num_threads(), "graphs": told}


def _names(graph: DumpedGraph) -> set[str]:
    return {kernel["name"] for kernel in graph.kernels}


def _timed(graph: DumpedGraph, asked: Asked) -> dict[str, Any]:
    """The record of one graph."""
    target, device = _target(graph)
    module = graph.module()
    inputs = arguments_for(graph, module, asked.shapes, device)
    record = Record(graph.folder.name, make_options(None, {"on_error": "raise"}), graph.manifest["nodes"])
    compiled = target.compile(module, record).finished()
    gpu = Gpu.at(device.index) if target.name == "cuda" else None
    rates = Rates.of(target.name, target.machine.get("vector_bits", 0), torch.get_num_threads(), gpu)
    stops = _Stops(module, device, rates, asked)
    kernels = (
        WatchedFunctions(compiled.kernels, stops.symbols, stops.at)
        if compiled.plans is None
        else WatchedPlanner(compiled.kernels, stops.at)
    )
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            call_program(module, inputs, to_python(module, compiled.plans), kernels)
    except UserError:
        raise
    except Exception as error:  # of an operator of PyTorch's, which the inputs do not suit
        pass_on(error)
        place = str(graph.inputs or graph.folder)
        raise UserError(f"the program does not run: {type(error).__name__}: {error}", location=place) from error
    records = [
        kernel | {"measured_us": measured["median_us"], "measured": measured}
        for kernel in graph.kernels
        if (measured := stops.measured.get(kernel["name"])) is not None
    ]
    return {"graph": graph.folder.name, "target": target.name, "machine": rates.machine, "kernels": records}


def _target(graph: DumpedGraph) -> tuple[Target, torch.device]:
    """The target that the kernels are compiled for, and its device. Raises `UserError` where that is not there."""
    name, place = graph.manifest["target"], str(graph.folder / FILE)
    if name == "cpu":
        return Cpu(), torch.device("cpu")
    if name != "cuda":
        raise UserError(f"its kernels run by the target '{name}', which says nothing of time", location=place)
    if not torch.cuda.is_available():
        raise UserError("its kernels were compiled for a GPU, and there is none", location=place)
    index = torch.cuda.current_device()
    return Cuda(index), torch.device("cuda", index)


class _Stops:
    """Where a program launches a kernel for the first time, it stops, and the launch is timed. `measured`: by the kernel's name."""

    def __init__(self, module: ir.Module, device: torch.device, rates: Rates, asked: Asked):
        self.module, self.device, self.rates, self.asked = module, device, rates, asked
        self.measured: dict[str, dict[str, Any]] = {}
        with module.context:
            table = ir.SymbolTable(module.operation)
            kernels = [function for function in functions(module) if kernel_op(function) is not None]
            self.functions = {function.attributes["sym_name"].value: function for function in kernels}
            self.parameters = {name: parameters_of(f, table) for name, f in self.functions.items()}
            self.symbols = {name: len(symbols_of(f)) for name, f in self.functions.items()}

    def at(self, call: Call) -> None:
        """Runs `call`, and has measured it if that is asked for."""
        if call.name in self.measured or (self.asked.kernels and call.name not in self.asked.kernels):
            call.run()
            return
        with self.module.context:
            buffers = self._buffers(self.parameters[call.name], call)
            function = self.functions[call.name]
            written = [number for number, (_, (_, writes)) in enumerate(roles_of(function)) if writes]
            work = work_of(function, buffers, call.symbols)
        memory = Memory([buffers[number] for number in written])
        outcome = compared(self.module, call, buffers, written) if self.asked.check else None
        times = timed(call.run, memory, self.device, self.asked.repeat)
        limit = self.rates.limit_us(work, [buffer.dtype for buffer in buffers])
        self.measured[call.name] = {
            "median_us": times.median_us,
            "min_us": times.min_us,
            "launches": len(times.seconds),
            "symbols": list(call.symbols),
            "shapes": [list(buffer.shape) for buffer in buffers],
            **vars(work),
            "limit_us": limit,
            "ratio": times.median_us / limit if limit else None,
            "check": None if outcome is None else {"match": outcome.match, "differences": list(outcome.differences)},
        }

    def _buffers(self, parameters: Sequence[Parameter], call: Call) -> list[torch.Tensor]:
        return [p.at(a, call.symbols, self.device) for p, a in zip(parameters, call.addresses, strict=True)]
