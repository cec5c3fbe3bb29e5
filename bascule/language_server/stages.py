"""The passes that are left to run on a module, by its stage."""

from bascule.dialect.ir.functions import functions
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline

from ..pipelines import DEFAULT
from ..tools.checking import LOOPS, in_torch_dialect


def remaining_passes(module: ir.Module) -> Pipeline:
    """The rest of the default pipeline: all for the torch stage, those behind kernels for the kernel stage, none for the program stage."""
    if in_torch_dialect(module):
        return Pipeline.parse(",".join(DEFAULT))
    if not any("tensor<" in str(function.attributes["function_type"]) for function in functions(module)):
        return Pipeline(())
    ops = {op.operation.name for f in functions(module) for block in f.regions[0].blocks for op in block.operations}
    first = "choose-products" if "bascule.kernel" in ops and not ops & {*LOOPS} else "torch-to-bascule"
    begin = DEFAULT.index(first) + (first == "torch-to-bascule")
    return Pipeline.parse(",".join(DEFAULT[begin:]))
