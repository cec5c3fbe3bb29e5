"""Operations of dialects that are not loaded, which a context may allow, and passes of MLIR that take it that there are none: they read where
nothing is, and end the process."""

from ..errors import UserError
from ..ir.locations import source_of
from ..ir.regions import ops_in
from ..mlir import ir

# Ask where symbols are used. An unknown operation with one region may be a table of symbols: nobody can say.
_OF_SYMBOLS = {
    *("inline", "normalize-memrefs", "remove-dead-values", "scalarize-single-element-tensor-return"),
    *("torch-shape-refinement-pipeline", "torchdynamo-export-to-torch-backend-pipeline"),
}
_OF_DIALECTS = {"math-extend-to-supported-types", "xegpu-vector-linearize"}  # ask each operation for its dialect


def check_known(name: str, module: ir.Module) -> None:
    """Raises `UserError` at the first operation of `module` at which MLIR's pass `name` would end the process."""
    context = module.context
    if not context.allow_unregistered_dialects or name not in _OF_SYMBOLS | _OF_DIALECTS:
        return
    for op in ops_in(module.operation):
        if context.is_registered_operation(op.name) or (name in _OF_SYMBOLS and len(op.regions) != 1):
            continue
        why = "may hold symbols of which it cannot know the uses" if name in _OF_SYMBOLS else "has no dialect to ask"
        raise UserError(
            f"'{name}' does not take '{op.name}', whose dialect is not loaded: it {why}",
            location=source_of(op.location),
        )
