"""Products of one matrix that a pointwise op joins, as `silu(x @ w) * (x @ v)`: one kernel reads once what both multiply, and has no product in
memory."""

from collections.abc import Iterator, Sequence

from ..analysis.bodies.body_summary import Body
from ..analysis.memory.buffers import ALIASES
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
    externs = {f.attributes["sym_name"].value: f for f in functions(module) if is_extern(f)}
    calls = [op for op in ops if op.name == "func.call" and op.attributes["callee"].value in externs]
    products = [
        product for op in calls if (product := Product.of(op, externs[op.attributes["callee"].value])) is not None
    ]
    alike: dict[tuple, list[Product]] = {}
    for product in products:
        if _is_worth(product, sm_count):
            alike.setdefault((seen(product.x), *product.result.type.shape), []).append(product)
    found = list[ir.Operation]()
    for group in alike.values():
        ends = [end for product in group if (end := _end(product.result)) is not None]
        if len(ends) == len(group) == 2 and ends[0] == ends[1]:
            found += [product.op for product in group]
    return found


def _is_worth(product: Product, sm_count: int) -> bool:
    sizes, element = [constant(size) for size in product.sizes], product.result.type.element_type
    rows, inner, columns = (size or 0 for size in sizes)
    narrow = isinstance(element, ir.FloatType) and element.width == 16 and product.x.type.element_type == element
    plain = product.result.type.rank == 2 and not (inner % ALIGNED or columns % ALIGNED)
    return narrow and plain and rows * columns >= TILE * sm_count


def seen(value: ir.Value) -> tuple:
    """The tensor that a value is a view of, and by which maps."""
    maps = []
    while not isinstance(value.owner, ir.Block) and value.owner.name == "bascule.view":
        maps.append(value.owner.attributes["map"].value)
        value = value.owner.operands[0]
    return value, *maps


def _end(value: ir.Value) -> ir.Value | None:
    """The result of the last of the pointwise computes that alone read `value`, one after the other; None where something else does."""
    last = None
    while True:
        readers = set(readers_of(value))
        if last is not None and not any(reader.name == "bascule.compute" for reader in readers):
            return last
        if len(readers) != 1:
            return None
        (reader,) = readers
        if reader.name != "bascule.compute" or not Body(reader).is_pointwise:
            return None
        value = last = reader.results[0]


def readers_of(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops at the top level that read a value or a view of it."""
    block = value.owner.operation.block
    for use in value.uses:
        user = op_in(block, use.owner.operation)
        if user.name in ALIASES:
            yield from readers_of(user.results[0])
        else:
            yield user
