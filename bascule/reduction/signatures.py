"""Changes of a graph function's signature, with all the attributes that say something of its arguments and results."""

from collections.abc import Collection

from bascule.dialect.ir import OperandAttr
from bascule.dialect.ir.functions import INPUTS, OUTPUTS, SHAPE, SHAPES, STORAGES
from bascule.dialect.ir.regions import end_of
from bascule.dialect.ir.shapes import shape_of, size_map
from bascule.dialect.mlir import ir

LAYOUT, LAYOUTS = (
    "bascule.layout",
    "bascule.layouts",
)  # of the torch stage: of an argument, and of the results of an operation


def drop_results(function: ir.Operation, dropped: Collection[int]) -> None:
    """The function returns the other results only."""
    attributes, block = function.attributes, function.regions[0].blocks[0]
    end, type_ = end_of(block), _type(function)
    kept = [n for n in range(len(type_.results)) if n not in dropped]
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create("func.return", operands=[end.operands[n] for n in kept])
    end.erase()
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(type_.inputs, [type_.results[n] for n in kept]))
    for name in ("res_attrs", SHAPES):
        if name in attributes:
            attributes[name] = ir.ArrayAttr.get([attributes[name][n] for n in kept])
    if OUTPUTS in attributes:
        outputs = [_renumbered(entry, kept) for entry in attributes[OUTPUTS]]
        attributes[OUTPUTS] = ir.ArrayAttr.get([entry for entry in outputs if entry is not None])
    _keep_storages(function, [*range(_tensors(type_)), *(_tensors(type_) + n for n in kept)])


def return_instead(function: ir.Operation, op: ir.Operation) -> None:
    """The function returns the results of `op`, one of its own."""
    drop_results(function, range(len(_type(function).results)))
    attributes, type_ = function.attributes, _type(function)
    end, made = end_of(function.regions[0].blocks[0]), list(op.results)
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create("func.return", operands=made)
    end.erase()
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(type_.inputs, [value.type for value in made]))
    if "res_attrs" in attributes:
        del attributes["res_attrs"]
    if SHAPES in attributes:
        del attributes[SHAPES]
    if any(isinstance(v.type, ir.RankedTensorType) and not v.type.has_static_shape for v in made):
        attributes[SHAPES] = ir.ArrayAttr.get([ir.AffineMapAttr.get(size_map(shape_of(v))) for v in made])
    if OUTPUTS in attributes:
        i64 = ir.IntegerType.get_signless(64)
        entries = [OperandAttr.get(ir.IntegerAttr.get(i64, n)) for n in range(len(made))]
        attributes[OUTPUTS] = ir.ArrayAttr.get([*attributes[OUTPUTS], *entries])
    if STORAGES in attributes:
        numbers = list(attributes[STORAGES])
        attributes[STORAGES] = ir.DenseI64ArrayAttr.get(
            [*numbers, *(max([*numbers, 0]) + 1 + n for n in range(len(made)))]
        )


def drop_arguments(function: ir.Operation, dropped: Collection[int]) -> None:
    """The function takes the other arguments only; nothing uses those that are dropped. Symbols stay: maps count them."""
    attributes, block, type_ = function.attributes, function.regions[0].blocks[0], _type(function)
    first = len(type_.inputs) - _tensors(type_)
    kept = [n for n in range(len(type_.inputs)) if n not in dropped or n < first]
    for number in reversed(range(len(type_.inputs))):
        if number not in kept:
            block.erase_argument(number)
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([type_.inputs[n] for n in kept], type_.results))
    if "arg_attrs" in attributes:
        attributes["arg_attrs"] = ir.ArrayAttr.get([attributes["arg_attrs"][n] for n in kept])
    if INPUTS in attributes:
        attributes[INPUTS] = ir.ArrayAttr.get(_inputs(attributes[INPUTS], [n - first for n in kept if n >= first]))
    numbers = [n - first for n in kept if n >= first]
    _keep_storages(function, [*numbers, *(_tensors(type_) + n for n in range(len(type_.results)))])


def add_argument(function: ir.Operation, like: ir.Value) -> ir.Value:
    """A new last argument of the type of `like`, a result of an operation, with its sizes and layout."""
    attributes, type_ = function.attributes, _type(function)
    given = list(attributes["arg_attrs"]) if "arg_attrs" in attributes else [ir.DictAttr.get({})] * len(type_.inputs)
    attributes["arg_attrs"] = ir.ArrayAttr.get([*given, ir.DictAttr.get(_facts(like))])
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*type_.inputs, like.type], type_.results))
    if INPUTS in attributes:
        entry = ir.StringAttr.get(f"tensor {_tensors(type_)}")
        attributes[INPUTS] = ir.ArrayAttr.get([*attributes[INPUTS], entry])
    if STORAGES in attributes:
        numbers, count = list(attributes[STORAGES]), _tensors(type_)
        numbers.insert(count, max([*numbers, 0]) + 1)
        attributes[STORAGES] = ir.DenseI64ArrayAttr.get(numbers)
    return function.regions[0].blocks[0].add_argument(like.type, like.owner.location)


def _facts(value: ir.Value) -> dict[str, ir.Attribute]:
    """The attributes of an argument that the types of the stages leave out."""
    op, number = value.owner, ir.OpResult(value).result_number
    facts = {}
    for name, listed in ((LAYOUT, LAYOUTS), (SHAPE, SHAPES)):
        if listed in op.attributes and not isinstance(op.attributes[listed][number], ir.UnitAttr):
            facts[name] = op.attributes[listed][number]
    if isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape:
        facts[SHAPE] = ir.AffineMapAttr.get(size_map(shape_of(value)))
    return facts


def _type(function: ir.Operation) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def _tensors(type_: ir.FunctionType) -> int:
    return sum(not isinstance(t, ir.IndexType) for t in type_.inputs)


def _renumbered(entry: ir.Attribute, kept: list[int]) -> ir.Attribute | None:
    """An entry of `bascule.outputs`; None where its result is gone."""
    if not isinstance(entry, OperandAttr):
        return entry
    number = ir.IntegerAttr(entry.index).value
    return OperandAttr.get(ir.IntegerAttr.get(entry.index.type, kept.index(number))) if number in kept else None


def _inputs(entries: ir.ArrayAttr, kept: list[int]) -> list[ir.Attribute]:
    """`bascule.inputs` without the tensors that are gone."""
    found = []
    for entry in entries:
        kind, _, number = entry.value.partition(" ")
        if kind != "tensor":
            found.append(entry)
        elif int(number) in kept:
            found.append(ir.StringAttr.get(f"tensor {kept.index(int(number))}"))
    return found


def _keep_storages(function: ir.Operation, kept: list[int]) -> None:
    if STORAGES in function.attributes:
        numbers = list(function.attributes[STORAGES])
        function.attributes[STORAGES] = ir.DenseI64ArrayAttr.get([numbers[n] for n in kept if n < len(numbers)])
