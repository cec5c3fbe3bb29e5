"""What is asked of a module before passes run: signatures that say what has to be known, and the stage that a pass takes: of values (the
tensor and kernel stages) or of buffers (the program stage)."""

from ..errors import UserError
from ..ir.functions import GRAPH, functions, is_extern
from ..ir.locations import source_of
from ..ir.signatures import check
from ..mlir import ir
from .base import BUFFERS, VALUES, Pass

_NAMES = {
    VALUES: "the tensor or kernel stage, whose values are tensors",
    BUFFERS: "the program stage, whose values are buffers",
}
_WAYS = {VALUES: "run it before bufferize-kernels", BUFFERS: "run bufferize-kernels first"}


def check_signatures(module: ir.Module) -> None:
    """Raises `UserError` at the first function of ours whose signature leaves open what passes need."""
    for function in functions(module):
        if _ours(function):
            check(function)


def require(stage: Pass, module: ir.Module) -> None:
    """Raises `UserError` at the first function of ours that is of another stage than `stage` takes."""
    if not stage.takes:
        return
    wrong = ir.MemRefType if stage.takes == VALUES else ir.RankedTensorType
    for function in functions(module):
        type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        if any(isinstance(t, wrong) for t in (*type_.inputs, *type_.results)) and _ours(function):
            raise UserError(
                f"'{stage.name}' takes {_NAMES[stage.takes]}: those of @{function.attributes['sym_name'].value} are not",
                location=source_of(function.location),
                hint=_WAYS[stage.takes],
            )


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
