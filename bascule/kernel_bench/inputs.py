"""Arguments of a dumped graph: those of its first call where the dump has them, else seeded ones."""

from collections.abc import Mapping

import torch

from ..debugging.run_program import Inputs
from ..dialect.interpreter import InterpreterError, check_arguments, random_inputs
from ..dialect.mlir import ir
from ..errors import UserError
from ..replay.saved_inputs import is_edited, read_inputs
from .dumps import DumpedGraph

SEED = 0


def arguments_for(graph: DumpedGraph, module: ir.Module, shapes: Mapping[str, int], device: torch.device) -> Inputs:
    """Arguments of the graph function of `module` on `device`. `shapes`: sizes of symbols, where the dump has no inputs. Raises `UserError`."""
    if graph.inputs is not None:
        if is_edited(graph.inputs):
            raise UserError(
                "was edited: places in it may be out of range", location=str(graph.inputs), hint="dump again"
            )
        values = read_inputs(str(graph.inputs))
        try:
            check_arguments(module, values)
        except InterpreterError as error:
            raise UserError(f"is not of this program: {error}", location=str(graph.inputs)) from error
    else:
        values = random_inputs(module, seed=SEED, shapes=shapes)
        _put_in_range(values)
    return [_on(value, device) if isinstance(value, torch.Tensor) else value for value in values]


def _put_in_range(values: Inputs) -> None:
    """Integers may be places in any of the tensors: they become less than the least of their sizes that is more than one."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    below = min((size for tensor in tensors for size in tensor.shape if size > 1), default=1)
    for tensor in tensors:
        if not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool):
            tensor.remainder_(below)


def _on(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    """With the same strides."""
    if value.device.type == device.type:
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    return made.copy_(value)
