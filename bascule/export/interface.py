"""The interface of an exported program's graph, as a package tells it: its inputs, its outputs, its weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from bascule.frontend.freezing.weight_inputs import WeightInputs, frozen_inputs
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.runtime.memory.tensor_serialization import told_of

from ..compiler.freezing import freeze
from ..errors import UnsupportedError
from .size_guards import size_text

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass
class Interface:
    """The interface of a program's graph: `inputs` and `outputs` as a package tells them, `values` fake tensors and numbers."""

    inputs: list[dict[str, Any]]
    values: list[Any]
    outputs: list[dict[str, Any]]

    @property
    def weights(self) -> dict[int, str]:
        """Number of an input -> the name of the parameter, buffer or constant that it is."""
        return {number: told["weight"] for number, told in enumerate(self.inputs) if "weight" in told}

    def required(self) -> list[dict[str, Any]]:
        """`inputs`, with the requirements of each. For when the program is compiled, which may settle what a symbol is."""
        pairs = zip(self.inputs, self.values, strict=True)
        return [told | _needs(value) if "user" in told else told for told, value in pairs]


def interface_of(program: ExportedProgram) -> Interface:
    signature = program.graph_signature
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs: list[dict[str, Any]] = []
    users: dict[str, int] = {}  # placeholder -> number among the user's inputs
    for node, spec in zip(placeholders, signature.input_specs):
        if spec.kind in _WEIGHTS:
            inputs.append({"weight": spec.target})
        elif spec.kind == InputKind.USER_INPUT:
            users[node.name] = len(users)
            inputs.append({"user": users[node.name]})
            if isinstance(node.meta.get("val"), torch.SymFloat | torch.SymBool):
                raise UnsupportedError("a float that varies from call to call is not taken", hint="give it as a tensor")
        else:
            raise UnsupportedError(f"an input of kind {spec.kind.name} is not taken", operator=node.name)
    outputs = [_output(spec, users) for spec in signature.output_specs]
    return Interface(inputs, [node.meta.get("val") for node in placeholders], outputs)


def frozen_weights(
    gm: torch.fx.GraphModule, interface: Interface, tensors: Mapping[str, Any], passes: FxPipeline
) -> tuple[torch.fx.GraphModule, list[str]]:
    """`gm` with the weights that it does not write as constants, which are no inputs of `interface` any more, after `passes` over it; and their
    names."""
    written = {told["weight"] for told in interface.outputs if "weight" in told}
    constant = {number: name for number, name in interface.weights.items() if name not in written}
    numbers = frozen_inputs(gm.graph, WeightInputs(len(interface.inputs), frozenset(constant)))
    frozen = {number: constant[number] for number in numbers}
    gm = freeze(gm, {number: tensors[name] for number, name in frozen.items()}, passes)
    interface.inputs = [told for number, told in enumerate(interface.inputs) if number not in frozen]
    interface.values = [value for number, value in enumerate(interface.values) if number not in frozen]
    return gm, list(frozen.values())


def _output(spec: Any, users: dict[str, int]) -> dict[str, Any]:
    match spec.kind:
        case OutputKind.BUFFER_MUTATION:
            return {"weight": spec.target}
        case OutputKind.USER_INPUT_MUTATION:
            return {"written": users[spec.target]}
        case OutputKind.USER_OUTPUT:
            return {}
    raise UnsupportedError(f"an output of kind {spec.kind.name} is not taken")


def _needs(value: Any) -> dict[str, Any]:
    """The requirements of a call's input."""
    if not isinstance(value, torch.Tensor):
        if isinstance(value, torch.SymInt):
            return {"number": size_text(value)}
        return {"value": value}
    told = told_of(value)
    return told | {what: [size_text(n) for n in told[what]] for what in ("sizes", "strides")}
