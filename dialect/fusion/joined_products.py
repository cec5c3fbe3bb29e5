"""Products of one matrix that a pointwise op joins, as `silu(x @ w) * (x @ v)`: one kernel reads once what both multiply, and has no product in
memory."""

from collections.abc import Callable, Iterator, Sequence
from math import prod

from ..analysis.bodies.body_summary import Body
from ..analysis.bodies.costs import magnitude
from ..analysis.memory.buffers import ALIASES, root_of
from ..analysis.memory.matmul_operands import Product
from ..ir.functions import functions, is_extern
from ..ir.regions import op_in
from ..ir.shapes import constant
from ..mlir import ir

ALIGNED = 8  # elements of 16 bits: rows are multiples of 16 bytes, so that tensor descriptors load them
TILE = 128 * 64  # elements of a product, for each multiprocessor, at least: with fewer some have no tile


def joined_products(module: ir.Module, ops: Sequence[ir.Operation], sm_count: int) -> list[ir.Operation]:
    """The calls among `ops`, those of a graph's block, of products of 16 bits of the same sizes and of one matrix, two by two, whose results are
    read by pointwise computes alone, up to one that reads both, whose own readers are no computes."""
    alike: dict[tuple, list[Product]] = {}
    for product in products_among(module, ops):
        if _is_worth(product, sm_count):
            alike.setdefault((seen(product.x), *product.result.type.shape), []).append(product)
    found = list[ir.Operation]()
    for group in alike.values():
        chains = [pointwise_chain(product.result, takes_once) for product in group]
        if len(group) == 2 and all(chains) and chains[0][-1] == chains[1][-1]:
            found += [product.op for product in group]
    return found


def _is_worth(product: Product, sm_count: int) -> bool:
    sizes, element = [constant(size) for size in product.sizes], product.result.type.element_type
    rows, inner, columns = (size or 0 for size in sizes)
    narrow = isinstance(element, ir.FloatType) and element.width == 16 and product.x.type.element_type == element
    plain = product.result.type.rank == 2 and not (inner % ALIGNED or columns % ALIGNED)
    return narrow and plain and product.has_sides and rows * columns >= TILE * sm_count


def seen(value: ir.Value) -> tuple:
    """The tensor that a value is a view of, and by which maps."""
    maps = []
    while not isinstance(value.owner, ir.Block) and value.owner.name == "bascule.view":
        maps.append(value.owner.attributes["map"].value)
        value = value.owner.operands[0]
    return value, *maps


def products_among(module: ir.Module, ops: Sequence[ir.Operation]) -> Iterator[Product]:
    """The calls among `ops`, those of a graph's block, that are products."""
    externs = {f.attributes["sym_name"].value: f for f in functions(module) if is_extern(f)}
    for op in ops:
        callee = externs.get(op.attributes["callee"].value) if op.name == "func.call" else None
        product = None if callee is None else Product.of(op, callee)
        if product is not None:
            yield product


def takes_once(body: Body, value: ir.Value) -> bool:
    """Whether `body` takes one element of `value`, or of a view of it, at each of its points, which are no more than those of `value`."""
    places = {(read.buffer, *read.indices) for read in body.reads if root_of(read.buffer) == value}
    return len(places) == 1 and magnitude(body.root.sizes) <= prod(value.type.shape)


def pointwise_chain(
    value: ir.Value, takes: Callable[[Body, ir.Value], bool] = lambda body, value: True
) -> list[ir.Operation]:
    """The pointwise computes that alone read `value`, one after the other, each of which takes what it reads, up to one whose own readers are no
    computes; nothing where something else reads it."""
    found = list[ir.Operation]()
    while True:
        readers = set(readers_of(value))
        if found and not any(reader.name == "bascule.compute" for reader in readers):
            return found
        if len(readers) != 1:
            return []
        (reader,) = readers
        body = Body(reader) if reader.name == "bascule.compute" else None
        if body is None or not body.is_pointwise or not takes(body, value):
            return []
        found.append(reader)
        value = reader.results[0]


def readers_of(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops at the top level that read a value or a view of it."""
    block = value.owner.operation.block
    for use in value.uses:
        user = op_in(block, use.owner.operation)
        if user.name in ALIASES:
            yield from readers_of(user.results[0])
        else:
            yield user
