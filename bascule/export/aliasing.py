"""Results of an exported program that share memory with its inputs, parameters or buffers: a package returns views of these, too.

The graph that is compiled has no operators that write in place: a view of what was written is one of a new value there. What shares memory is
seen where the graph as it was exported runs on fake tensors.
"""

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from itertools import count
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Interpreter

from bascule.frontend.fx.storages import storage
from bascule.frontend.fx.trace_context import inside
from bascule.frontend.importer.symbolic_numbers import symbols_in

from ..compat.tensors.fake_tensors import FakeTensor
from .size_guards import size_text


def aliases_of(program: ExportedProgram, symbols: Collection[str], weights: Collection[str]) -> list[dict[str, Any]]:
    """For each result of `program`: {}, or the memory in which it lies. There `user` is the number of one of the user's inputs, or `weight` a
    name, one of `weights`; `offset` is in bytes from the first element of that; `sizes` and `strides` are those of the result, numbers or
    expressions of `symbols`.

    {} also for what is conjugated or negated lazily. `program` is as it was exported: without in-place operators there is less to be seen.
    """
    values = [node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]
    # Others than the program's: the graph may change their sizes in place.
    given = [x.detach() if isinstance(x, FakeTensor) else x for x in values]
    bases: dict[Any, tuple[torch.Tensor, dict[str, Any]]] = {}
    users = count()
    for value, spec in zip(given, program.graph_signature.input_specs, strict=True):
        name = {"user": next(users)} if spec.kind == InputKind.USER_INPUT else {"weight": spec.target}
        if isinstance(value, torch.Tensor) and ("user" in name or spec.target in weights):
            bases.setdefault(storage(value), (value, name))

    def place(result: Any) -> dict[str, Any]:
        if storage(result) not in bases or result.is_conj() or result.is_neg():
            return {}
        base, name = bases[storage(result)]
        offset = result.storage_offset() * result.itemsize - base.storage_offset() * base.itemsize
        if not {str(symbol) for symbol in symbols_in([result, offset])} <= {*symbols}:
            return {}
        sizes, strides = ([size_text(n) for n in numbers] for numbers in (result.shape, result.stride()))
        return {**name, "sizes": sizes, "strides": strides, "offset": size_text(offset)}

    specs = program.graph_signature.output_specs
    results = _results(program, given) if bases else [None] * len(specs)
    return [place(x) for spec, x in zip(specs, results, strict=True) if spec.kind == OutputKind.USER_OUTPUT]


def _results(program: ExportedProgram, given: Sequence[Any]) -> Sequence[Any]:
    """Runs the graph on `given`."""
    mode = next(x.fake_mode for x in given if isinstance(x, FakeTensor))
    unbacked = nullcontext() if mode.shape_env is None else mode.shape_env.ignore_fresh_unbacked_symbols()
    with inside(mode), torch.no_grad(), unbacked:
        return Interpreter(program.graph_module).run(*given)
