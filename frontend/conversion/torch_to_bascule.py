"""The pass `torch-to-bascule`: the torch dialect becomes the tensor stage."""

from dataclasses import dataclass, replace
from typing import ClassVar

from bascule.dialect.errors import UserError
from bascule.dialect.ir.functions import graph_functions
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pass
from bascule.dialect.passes.base import check_target
from bascule.dialect.passes.stages import check_copies

from .context import Asked
from .rewriter import convert_module

FALLBACKS = ("aten", "error")
NUMERICS = ("f32", "eager")
RANDOM = ("philox", "eager")
DEFAULT_DTYPES = ("f32", "f64", "f16", "bf16")


@dataclass(frozen=True)
class TorchToBascule(Pass):
    """Takes functions over `!torch.vtensor`, as the importer leaves them; leaves the tensor stage.

    Each torch op is rewritten by the rule for its operator (`rules/`, one file a family). With `fallback=aten` an operator that has no
    rule becomes a call of its ATen function; with `fallback=error` it is an error that names the operator and the user's line.
    With `numerics=eager` every operator rounds its result as eager does, and no pass removes that. With `deterministic` an operator of which
    a result would depend on the order in which points run (writes at indices from data that meet: sums of floats, or one replaces
    another) becomes a call of its ATen function, which PyTorch makes deterministic or refuses. CPU kernels need none of that: such points
    run in order there. With `random=eager` so does an operator that draws random numbers, whether anything uses them or not:
    they are those that eager draws.

    With `index-asserts` an index from data that eager refuses is marked `bascule.checked` where it is clamped: lowerings to a GPU assert there.
    An operator may be built in another way for `target` cuda: interpolation in one kernel, which reads from a cache, instead of one dimension
    after the other. A floating-point number beside integers is a `default-dtype`, as in eager (`torch.set_default_dtype`). With
    `fill-uninitialized` memory that nothing was written to has NaN, or the largest integer, as in eager
    (`torch.utils.deterministic.fill_uninitialized_memory`); without, zeros.
    """

    name: ClassVar[str] = "torch-to-bascule"
    fallback: str = "aten"
    numerics: str = "f32"
    deterministic: bool = False
    random: str = "philox"
    target: str = "cpu"
    index_asserts: bool = False
    default_dtype: str = "f32"
    fill_uninitialized: bool = False

    def __post_init__(self) -> None:
        checked = {"fallback": FALLBACKS, "numerics": NUMERICS, "random": RANDOM, "default-dtype": DEFAULT_DTYPES}
        for option, known in checked.items():
            value = getattr(self, option.replace("-", "_"))
            if value not in known:
                raise UserError(f"option '{option}' of pass '{self.name}' is {' or '.join(known)}, got '{value}'")

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        eager_rounding, eager_random = self.numerics == "eager", self.random == "eager"
        asked = Asked(self.fallback, eager_rounding, self.deterministic, eager_random, self.target, self.index_asserts)
        asked = replace(asked, default_dtype=self.default_dtype, fill_uninitialized=self.fill_uninitialized)
        convert_module(module, asked)
        with module.context:
            for graph in graph_functions(module):
                check_copies(graph)
