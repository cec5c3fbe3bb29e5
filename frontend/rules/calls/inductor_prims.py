"""Operators that Inductor's passes put into a graph: random numbers whose seed is a tensor, so that a backward can draw them again."""

import torch
from bascule.dialect.ir import builders
from bascule.dialect.mlir import ir

from ...conversion import extern_calls
from ...conversion.context import Conversion
from ...conversion.registry import NoRule, rule
from ..support.operands import dtype_of_result, finish, index_constant
from .random import INT64, Stream, integers


@rule("prims.inductor_seed.default", "prims.inductor_seeds.default")
def seeds(c: Conversion, *_):
    sizes = [size.maybe_downcast() for size in c.result_sizes[0]]
    if not all(isinstance(size, ir.AffineConstantExpr) for size in sizes):
        raise NoRule("a number of seeds that is not constant")
    arguments = [INT64.min, INT64.max, [size.value for size in sizes], 4, None, None, None]
    reason = "seeds of random numbers"
    return extern_calls.call(c.externs, "aten.randint.low", arguments, c.results, c.result_sizes, reason=reason)


@rule("prims.inductor_lookup_seed.default")
def lookup_seed(c: Conversion, seeds: ir.Value, index: int):
    return c.compute(lambda at: builders.read(seeds, [index_constant(index)]))


@rule("prims.inductor_random.default")
def random(c: Conversion, size, seed: ir.Value, mode: str, *_):
    """Uniform in [0, 1) for mode "rand", normal for "randn"; drawn in f32, as Inductor does."""
    stream, dtype = Stream.seeded(c, c.result_sizes[0], seed), dtype_of_result(c)
    distribution = {"rand": "uniform", "randn": "normal"}[mode]
    return c.compute(lambda at: finish(c, stream.draw(distribution, torch.float32, at), dtype))


@rule("prims.inductor_randint.default")
def randint(c: Conversion, low, high, size, seed: ir.Value):
    return integers(c, low, high, stream=Stream.seeded(c, c.result_sizes[0], seed))
