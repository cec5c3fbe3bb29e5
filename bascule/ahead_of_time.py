"""`bascule.aot_compile`: an exported program becomes one file that runs without a compiler (`runtime/program.py`)."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from bascule.frontend.decompositions import decomposition_table
from bascule.frontend.frozen_weights import WeightInputs, frozen_inputs
from bascule.frontend.importer import import_graph
from bascule.lowering.program import to_python
from bascule.runtime.packages import pack
from bascule.runtime.processor import instruction_sets
from bascule.runtime.stored_tensors import bytes_of, told_of

from .devices import placement_of
from .dialect.ir import context
from .errors import UnsupportedError, UserError
from .freezing import freeze
from .options import make_options
from .pipelines import pipeline_for
from .record import Record
from .targets import target_for

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def aot_compile(
    program: ExportedProgram,
    path: str | os.PathLike,
    *,
    weights: str = "inside",
    options: Mapping[str, Any] | None = None,
) -> None:
    """Compiles `program` (of `torch.export.export`) for the device of its tensors, and writes one package to `path`.

    `weights`: "inside", the package holds the values of parameters and buffers; "reference", it holds their names, dtypes and sizes, and
    `aot_load` is given the values (what is in no state dict, constants and buffers that are not persistent, is inside all the same). Sizes
    that were exported as dynamic stay so; buffers and inputs that the program writes are written at each call. `options` are those of
    `torch.compile`; with `freezing`, weights that the program does not write cannot be changed later. A package is for this machine's
    processor, or for GPUs of the architecture of this one, under the same number.
    Raises `UnsupportedError` for a program that cannot be compiled as one graph, and `UserError` for other `weights` and options.
    """
    if weights not in ("inside", "reference"):
        raise UserError(
            f"has no value {weights!r}", location="parameter 'weights'", hint="known: 'inside', 'reference'"
        )
    checked = make_options(None, options)
    if checked.freezing and weights == "reference":
        raise UserError(
            "needs the values of weights, which a package by reference does not have", location="option 'freezing'"
        )
    program = program.run_decompositions(decomposition_table())
    gm, signature = program.graph_module, program.graph_signature
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    tensors = {**program.state_dict, **program.constants}
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
    frozen: dict[int, str] = {}
    if checked.freezing:
        written = {told["weight"] for told in outputs if "weight" in told}
        constant = {n: i["weight"] for n, i in enumerate(inputs) if "weight" in i and i["weight"] not in written}
        numbers = frozen_inputs(gm.graph, WeightInputs(len(inputs), frozenset(constant)))
        frozen = {n: constant[n] for n in numbers}
        gm = freeze(gm, {n: tensors[name] for n, name in frozen.items()})
        inputs, values = ([x for n, x in enumerate(many) if n not in frozen] for many in (inputs, values))

    record, placement = Record("program", checked, nodes=len(gm.graph.nodes)), placement_of(gm)
    target = target_for(checked.target, placement)
    imported = import_graph(gm, values, context=context())
    placement.annotate(imported.module)
    pipeline_for(checked, target.machine).run(imported.module, verify=checked.verify, observers=[record.observe])
    kernels, plans = target.packaged(imported.module, record)

    used = {told["weight"]: tensors[told["weight"]] for told in inputs if "weight" in told}
    constants = {f"constant {number}": value for number, value in enumerate(imported.constants)}
    held = {
        **{name: value for name, value in used.items() if weights == "inside" or name not in program.state_dict},
        **constants,
    }
    on_gpu = placement.device.type == "cuda"
    description = {
        "inputs": inputs,
        "outputs": outputs,
        "ranges": {str(s): [int(r.lower), min(int(r.upper), 2**62)] for s, r in program.range_constraints.items()},
        "in_spec": pytree.treespec_dumps(program.call_spec.in_spec),
        "out_spec": pytree.treespec_dumps(program.call_spec.out_spec),
        "weights": {name: told_of(value) for name, value in {**used, **constants}.items()},
        "unused": sorted(set(program.state_dict) - set(used) - set(frozen.values())),
        "frozen": sorted(frozen.values()),
        "constants": list(constants),
        "device": str(placement.device),
        "processor": [] if on_gpu else sorted(instruction_sets()),
        "capability": target.machine["capability"] if on_gpu else None,
    }
    blobs = {"wrapper": to_python(imported.module, plans).encode()}
    blobs |= {f"kernels/{name}": blob for name, blob in kernels.items()}
    blobs |= {f"weights/{name}": bytes_of(value) for name, value in held.items()}
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
    told = told_of(value)
    return told | {what: [_size(n) for n in told[what]] for what in ("sizes", "strides")}


def _size(number: int | torch.SymInt) -> int | str:
    return str(number.node.expr) if isinstance(number, torch.SymInt) else number
