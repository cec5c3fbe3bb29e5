"""Preconditions of passes on a module: complete signatures, and the stage that a pass takes: values (the tensor and kernel stages) or buffers
(the program stage)."""

from collections.abc import Iterator

from ..errors import UserError
from ..ir.attributes import LayoutAttr
from ..ir.functions import EXTERN, GRAPH, functions, is_extern
from ..ir.locations import source_of
from ..ir.loop_ops import ComputeOp, ScanOp
from ..ir.memory_ops import CopyIntoOp, ScatterOp
from ..ir.regions import end_of, ops_in
from ..ir.signatures import check, check_extern
from ..mlir import ir
from .base import BUFFERS, EITHER, VALUES, Pass

_COMPUTES = (ComputeOp.OPERATION_NAME, ScanOp.OPERATION_NAME, ScatterOp.OPERATION_NAME)
ENCODED = "encoded"  # tensors that say of themselves what nobody here knows
TORCH = "torch"  # beside what a pass can take: values of the torch dialect
STAGE_NAMES = {
    EITHER: "the stages after the torch stage, whose values are tensors or buffers",
    VALUES: "the tensor or kernel stage, whose values are tensors",
    BUFFERS: "the program stage, whose values are buffers",
}
# What there is -> what to do about it, by what a pass takes.
_WAYS = {
    VALUES: {TORCH: "run torch-to-bascule first", BUFFERS: "run it before bufferize-kernels"},
    BUFFERS: {TORCH: "run the passes up to bufferize-kernels first", VALUES: "run bufferize-kernels first"},
    EITHER: {TORCH: "run torch-to-bascule first"},
}


def check_signatures(module: ir.Module) -> None:
    """Raises `UserError` at the first function of ours whose signature leaves open what passes need, and at a declaration beside such that
    does not say what it is."""
    ours, open_ = False, None
    for function in functions(module):
        if is_extern(function):
            check_extern(function)
        elif not len(function.regions[0].blocks):
            open_ = open_ or function
        elif _ours(function):
            ours = True
            check(function)
            check_copies(function)
    if ours and open_ is not None:
        raise _undefined(open_)


def _undefined(function: ir.Operation) -> UserError:
    return UserError(
        f"@{function.attributes['sym_name'].value} is declared and not defined",
        location=source_of(function.location),
        hint=f"'{EXTERN}' says which ATen operator a declaration stands for",
    )


def check_copies(graph: ir.Operation) -> None:
    """Raises `UserError` where the tensor stage reads an argument below the `bascule.copy_into` that writes its final value: values there are
    read at any place, and written back at the end."""
    written: dict[ir.Value, int] = {}  # an argument -> the number of its copy
    below: list[tuple[ir.Operation, int]] = []  # ops, and how many copies stand above them
    computes = False
    for view in graph.regions[0].blocks[0].operations:
        op = view.operation
        computes = computes or op.name in _COMPUTES
        if written and op.name != "func.return":
            below.append((op, len(written)))
        if op.name == CopyIntoOp.OPERATION_NAME:
            written.setdefault(op.operands[1], len(written))
    for op, above in below if computes else ():
        read = (
            list(op.operands)[:1]
            if op.name == CopyIntoOp.OPERATION_NAME
            else [v for o in ops_in(op) for v in o.operands]
        )
        if any(written.get(value, above) < above for value in read):
            raise UserError(
                f"'{op.name}' reads an argument below the copy into it",
                location=source_of(op.location),
                hint="copies come last: use the value that is written, or read the argument above",
            )


def require(stage: Pass, module: ir.Module, known: dict[ir.Attribute, list[str]]) -> None:
    """Raises `UserError` at the first function of ours, or operator of ATen, that is of another stage than `stage` takes.

    `known`: the kinds of values of the functions' types that were asked for before, by any pass.
    """
    if not stage.takes:
        return
    ways = _WAYS[stage.takes]
    for function in functions(module):
        signature = function.attributes["function_type"]
        kinds = known.get(signature)
        if kinds is None:
            types = dict.fromkeys(
                _types(ir.FunctionType(ir.TypeAttr(signature).value))
            )  # a graph has many values of few types
            kinds = known[signature] = [*dict.fromkeys(map(_kind, types))]
        if any(kinds) and not is_extern(function) and not len(function.regions[0].blocks):
            raise _undefined(function)  # its calls are nothing that a pass could take, of whatever functions
        if ENCODED in kinds:
            raise UserError(
                f"'{stage.name}' takes tensors with no encoding but #bascule.layout: @{function.attributes['sym_name'].value} has others",
                location=source_of(function.location),
            )
        if any(kinds) and len(function.regions[0].blocks) > 1:
            first = function.regions[0].blocks[0]
            raise UserError(
                f"'{stage.name}' takes functions of one block: @{function.attributes['sym_name'].value} has more",
                location=source_of(end_of(first).location),
            )
        hint = next((ways[kind] for kind in kinds if kind in ways), None)
        if hint is not None and (is_extern(function) or _ours(function)):
            raise UserError(
                f"'{stage.name}' takes {STAGE_NAMES[stage.takes]}: those of @{function.attributes['sym_name'].value} are not",
                location=source_of(function.location),
                hint=hint,
            )


def _types(type_: ir.FunctionType) -> Iterator[ir.Type]:
    yield from type_.inputs
    yield from type_.results


def _kind(type_: ir.Type) -> str:
    """The kind of a value, by its type; empty for those that are at every stage."""
    if isinstance(type_, ir.MemRefType | ir.RankedTensorType):
        if isinstance(type_, ir.RankedTensorType) and not isinstance(type_.encoding, LayoutAttr | None):
            return ENCODED
        return BUFFERS if isinstance(type_, ir.MemRefType) else VALUES
    return TORCH if str(type_).startswith("!torch.") else ""


def require_program(module: ir.Module) -> None:
    """Raises `UserError` at the first function of ours that is not of the program stage, which a wrapper can be made of."""
    with module.context:
        for function in filter(_ours, functions(module)):
            block = function.regions[0].blocks[0]
            values = [*block.arguments, *(result for op in block.operations for result in op.operation.results)]
            for type_ in (value.type for value in values):
                if not isinstance(type_, ir.MemRefType | ir.IndexType | ir.IntegerType | ir.FloatType):
                    raise UserError(
                        f"the pipeline leaves @{function.attributes['sym_name'].value} before the program stage, with a value of type {type_}",
                        location=source_of(function.location),
                        hint="a pipeline ends as bascule.pipelines.DEFAULT does, with bufferize-kernels and plan-memory",
                    )


def _ours(function: ir.Operation) -> bool:
    """Whether a function has a part in our stages: one of upstream dialects alone has none."""
    if is_extern(function):
        return False
    blocks = function.regions[0].blocks
    return GRAPH in function.attributes or any(
        op.operation.name.startswith("bascule.") for block in blocks for op in block.operations
    )
