"""`bascule.aot_compile`: an exported program becomes one file that runs without a compiler (`runtime/program.py`). For the CPU."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from bascule.frontend.decompositions import decomposition_table
from bascule.frontend.importer import import_graph
from bascule.lowering.program import to_python
from bascule.runtime.packages import pack
from bascule.runtime.processor import instruction_sets

from .dialect.ir import context
from .errors import UnsupportedError
from .options import make_options
from .pipelines import pipeline_for
from .record import Record
from .targets import Cpu

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def aot_compile(program: ExportedProgram, path: str | os.PathLike, *, options: Mapping[str, Any] | None = None) -> None:
    """Compiles `program` (of `torch.export.export`) for this machine's CPU and writes one package to `path`, weights inside.

    Sizes that were exported as dynamic stay so; buffers and inputs that the program writes are written at each call. `options` are those of
    `torch.compile`. Raises `UnsupportedError` for a program that cannot be compiled as one graph on the CPU.
    """
    checked = make_options(None, options)
    program = program.run_decompositions(decomposition_table())
    gm, signature = program.graph_module, program.graph_signature
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    weights = {**program.state_dict, **program.constants}
    inputs, values = [], []
    for node, spec in zip(placeholders, signature.input_specs):
        value = node.meta.get("val")
        values.append(value)
        if spec.kind in _WEIGHTS:
            inputs.append({"weight": spec.target})
        elif spec.kind == InputKind.USER_INPUT:
            number = sum("user" in told for told in inputs)
            inputs.append({"user": number, **_told(value)})
        else:
            raise UnsupportedError(f"an input of kind {spec.kind.name} is not taken", operator=node.name)
    users = {node.name: told["user"] for node, told in zip(placeholders, inputs) if "user" in told}
    outputs = [_output(spec, users) for spec in signature.output_specs]

    record, target = Record("program", checked, nodes=len(gm.graph.nodes)), Cpu()
    imported = import_graph(gm, values, context=context())
    pipeline_for(checked, target.machine).run(imported.module, verify=checked.verify, observers=[record.observe])
    compiled = target.compile(imported.module, record)
    kept = {told["weight"]: weights[told["weight"]] for told in inputs if "weight" in told}
    constants = {f"constant {number}": value for number, value in enumerate(imported.constants)}
    description = {
        "inputs": inputs,
        "outputs": outputs,
        "ranges": {str(s): [int(r.lower), min(int(r.upper), 2**62)] for s, r in program.range_constraints.items()},
        "in_spec": pytree.treespec_dumps(program.call_spec.in_spec),
        "out_spec": pytree.treespec_dumps(program.call_spec.out_spec),
        "weights": {name: _layout(value) for name, value in {**kept, **constants}.items()},
        "constants": list(constants),
        "processor": sorted(instruction_sets()),
    }
    blobs = {"wrapper": to_python(imported.module).encode(), **target.saved(compiled)}
    blobs |= {f"weights/{name}": _bytes(value) for name, value in {**kept, **constants}.items()}
    Path(path).write_bytes(pack(description, blobs))


def _output(spec: Any, users: dict[str, int]) -> dict[str, Any]:
    match spec.kind:
        case OutputKind.BUFFER_MUTATION:
            return {"weight": spec.target}
        case OutputKind.USER_INPUT_MUTATION:
            return {"written": users[spec.target]}
        case OutputKind.USER_OUTPUT:
            return {}
    raise UnsupportedError(f"an output of kind {spec.kind.name} is not taken")


def _told(value: Any) -> dict[str, Any]:
    """What a call's input has to be."""
    if not isinstance(value, torch.Tensor):
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            raise UnsupportedError("a number that varies from call to call is not taken", hint="give it as a tensor")
        return {"value": value}
    return {
        "dtype": str(value.dtype),
        "sizes": [_size(n) for n in value.shape],
        "strides": [_size(n) for n in value.stride()],
    }


def _size(number: int | torch.SymInt) -> int | str:
    return str(number.node.expr) if isinstance(number, torch.SymInt) else number


def _dense(value: torch.Tensor) -> torch.Tensor:
    """`value`, or a copy where its elements are not all of its memory in some order."""
    value = value.detach()
    return value if torch.ops.aten.is_non_overlapping_and_dense(value) else value.contiguous()


def _layout(value: torch.Tensor) -> dict[str, Any]:
    value = _dense(value)
    return {"dtype": str(value.dtype), "sizes": list(value.shape), "strides": list(value.stride())}


def _bytes(value: torch.Tensor) -> bytes:
    value = _dense(value)
    flat = value.as_strided((value.numel(),), (1,))
    return flat.contiguous().view(torch.uint8).numpy().tobytes() if value.numel() else b""
