"""Gradients of `embedding_bag`: of the table, by adding rows of the gradient to rows of it, and of the weights of the samples.

The forward stays ATen's, whose kernels walk each bag once; a bag is as long as its data says.
"""

from collections.abc import Callable, Sequence

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import expr, shape_of, tensor_type
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import NoRule, rule
from ..support.operands import dtype_of_result, finish, read, temporary, tensor_dtype
from ..support.scalars import Scalar, element_type, opmath, scalar_type, select
from .scatter import filled, position, scattered, without_padding

SUM, MEAN, MAX = range(3)  # modes
Bag = Callable[[ir.Value], ir.Value]  # number of a sample -> number of its bag


def bags(c: Conversion, indices: ir.Value, offsets: ir.Value, count: ir.AffineExpr) -> Bag:
    """Which of `count` bags each sample is in, counted from where bags begin. The forward's own answer (offset2bag) is not read: where
    ATen has no use for it, it is empty, also where PyTorch's shape functions say otherwise."""
    (samples,) = shape_of(indices)
    sizes = [expr(samples + 1)]  # a last offset may stand behind all samples
    zeros = temporary(sizes, torch.int64, lambda at: Scalar.constant(0, torch.int64))

    def begin(at: Sequence[ir.Value], dest: ir.Value) -> None:
        place = position(c, read(offsets, at).value, sizes[0], wrap=False, checked=False)
        builders.store(Scalar.constant(1, torch.int64).value, dest, [place], "add")

    begun = c.scatter(zeros, shape_of(offsets), begin, any_order=True)
    type_ = tensor_type([samples], element_type(torch.int64))
    places = builders.scan("sum", 0, type_, [samples], lambda at: builders.read(begun, at))
    return lambda sample: position(c, (read(places, [sample]) - 1).value, count, wrap=False, checked=False)


@rule("aten._embedding_bag_backward.default")
def backward(c, grad, indices, offsets, bag_of, sizes, largest, rows, by_frequency, mode, sparse, weights, padding=-1):
    if sparse:
        raise NoRule("a sparse gradient")
    return table_gradient(c, grad, indices, offsets, sizes, largest, by_frequency, mode, weights, padding)


def table_gradient(c, grad, indices, offsets, sizes, largest, by_frequency, mode, weights, padding):
    """`sizes`: samples of each bag; `largest`: of mode max, the row that each element of a bag came from."""
    if by_frequency:
        raise NoRule("a gradient scaled by frequency")
    rows, inner = c.result_sizes[0][0], opmath(tensor_dtype(grad))
    if mode == MAX:

        def write(at: Sequence[ir.Value]):
            row = position(c, read(largest, at).value, rows, wrap=False, checked=False)
            some = read(sizes, at[:1]).ne(0)
            return [row, at[1]], select(some, read(grad, at).to(inner), 0)

        return scattered(c, filled(c, 0), shape_of(grad), write, "add")
    bag = bags(c, indices, offsets, shape_of(grad)[0])

    def write_sample(at: Sequence[ir.Value]):
        sample, column = at
        index, its = read(indices, [sample]), bag(sample)
        value = read(grad, [its, column]).to(inner)
        if mode == MEAN:
            value = value / read(sizes, [its]).maximum(1).to(inner)
        if weights is not None:
            value = value * read(weights, [sample]).to(inner)
        row = position(c, index.value, rows, wrap=False, checked=False)
        return [row, column], without_padding(c, value, index, padding)

    return scattered(c, filled(c, 0), [*shape_of(indices), shape_of(grad)[1]], write_sample, "add")


@rule("aten._embedding_bag_per_sample_weights_backward.default")
def weights_backward(c, grad, table, indices, offsets, bag_of, mode, padding=-1):
    """Of each sample the product of its bag's gradient and of its row."""
    if mode != SUM:
        raise NoRule("weights of samples in another mode than a sum")
    rows, dtype = shape_of(table)[0], dtype_of_result(c)
    inner, bag = opmath(dtype), bags(c, indices, offsets, shape_of(grad)[0])

    def body(at: Sequence[ir.Value]) -> ir.Value:
        index, its = read(indices, at), bag(at[0])
        row = position(c, index.value, rows, wrap=False, checked=False)

        def term(k: Sequence[ir.Value]) -> ir.Value:
            return (read(grad, [its, *k]).to(inner) * read(table, [row, *k]).to(inner)).value

        (total,) = builders.reduce("sum", shape_of(grad)[1:], scalar_type(inner), term)
        value = Scalar(total, inner)
        return finish(c, without_padding(c, value, index, padding), dtype)

    return c.compute(body)
