"""The fusion in which a pass that changed the numbers of a graph changed them: a kernel, or one op of the graph."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..dialect.interpreter import InterpreterError, Reference, choose, interpret, random_inputs, reference
from ..dialect.ir.attribute_names import OPERATORS
from ..dialect.ir.functions import OUTPUTS, SHAPES, STORAGES, functions, is_extern, kernel_op
from ..dialect.ir.locations import operators_of, source_of
from ..dialect.ir.regions import end_of
from ..dialect.ir.shapes import shape_of, size_map
from ..dialect.mlir import func, ir
from ..tools.checking import copy_of, tensors

# Of what the interpreter allows: rounding is measured in seven runs, and of the many elements of a model some few are a little farther away.
SLACK = 3
Values = Sequence[torch.Tensor | int]


@dataclass(frozen=True)
class Fusion:
    """`name`: of the kernel, or of the op's result; the operators that are in it, their lines, and how its numbers differ."""

    name: str
    operators: tuple[str, ...]
    sources: tuple[str, ...]
    differences: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"in {self.name}, made of {', '.join(self.operators) or 'no operators that are known'}"]
        lines += [f"  {source}" for source in self.sources]
        return "\n".join([*lines, *(f"  {line}" for line in self.differences)])


def wrong_fusion(before: ir.Module, after: ir.Module, inputs: Values) -> Fusion | None:
    """The first one whose numbers differ where a pass made `after` of `before`, in a run of the graph with `inputs`; None if none can be told.

    Kernels that both have are held against each other, with the operands that they have in that run, or, in memory, random ones. Where the pass
    made the kernels, or there are none, a value of `after` is wrong that is no value of `before`.
    """
    kernels = {name: (old, _kernels(after)[name]) for name, old in _kernels(before).items() if name in _kernels(after)}
    changed = [name for name, (old, new) in kernels.items() if str(old) != str(new)]
    if not changed:
        return None if _in_memory(after) else _wrong_value(before, after, inputs)
    if _in_memory(before):
        found = (_compared(before, after, name, random_inputs(before, name)) for name in changed)
    else:
        found = (_compared(before, after, name, given) for name, given in _operands(before, inputs) if name in changed)
    return next(filter(None, found), None)


def _kernels(module: ir.Module) -> dict[str, ir.Operation]:
    return {f.attributes["sym_name"].value: f for f in functions(module) if kernel_op(f) is not None}


def _in_memory(module: ir.Module) -> bool:
    with module.context:
        return any(isinstance(a.type, ir.MemRefType) for a in choose(module, None).regions[0].blocks[0].arguments)


def _compared(before: ir.Module, after: ir.Module, name: str, given: Values) -> Fusion | None:
    """The kernel function `name`, if what it computes of `given` is another in `after`."""
    wanted, own = (
        reference(before, given, name).relaxed(SLACK),
        [x.clone() if isinstance(x, torch.Tensor) else x for x in given],
    )
    try:
        differences = wanted.compare([*interpret(after, own, name), *tensors(own)]).differences
    except InterpreterError as error:
        differences = (str(error),)
    return _fusion(f"@{name}", _kernels(after)[name], differences) if differences else None


def _fusion(name: str, op: ir.Operation, differences: Sequence[str]) -> Fusion:
    told = [o.value for o in op.attributes[OPERATORS]] if OPERATORS in op.attributes else operators_of(op.location)
    return Fusion(name, tuple(dict.fromkeys(told)), tuple(dict.fromkeys(_sources(op))), tuple(differences))


def _sources(op: ir.Operation) -> Iterator[str]:
    location = ir.Location.from_attr(op.location.attr)
    parts = location.locations if isinstance(location, ir.FusedLoc) else [location]
    yield from (source for part in parts if (source := source_of(part)) is not None)


def _operands(module: ir.Module, inputs: Values) -> Iterator[tuple[str, Values]]:
    """Of each call of a kernel, in order, its name and what it is called with."""
    known = _values(module, inputs)
    for view in choose(module, None).regions[0].blocks[0].operations:
        op = view.operation
        if op.name == "func.call" and op.attributes["callee"].value in _kernels(module):
            yield op.attributes["callee"].value, [known[value] for value in op.operands]


def _values(module: ir.Module, inputs: Values) -> dict[ir.Value, torch.Tensor | int]:
    """The values at the top of the graph in a run in the precision of their types."""
    block = choose(module, None).regions[0].blocks[0]
    given = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    found = interpret(_returning_all(module), given)
    return dict(zip([*block.arguments, *_made(block)], [*inputs, *found], strict=True))


def _made(block: ir.Block) -> list[ir.Value]:
    results = [result for view in block.operations for result in view.operation.results]
    return [result for result in results if isinstance(result.type, ir.RankedTensorType)]


def _returning_all(module: ir.Module) -> ir.Module:
    """A copy of `module` whose graph returns every tensor that is made at its top."""
    copy = copy_of(module)
    with copy.context, ir.Location.unknown():
        graph = choose(copy, None)
        block = graph.regions[0].blocks[0]
        results = _made(block)
        end = end_of(block)
        with ir.InsertionPoint(end):
            func.ReturnOp(results)
        end.erase()
        type_ = ir.FunctionType.get([a.type for a in block.arguments], [value.type for value in results])
        graph.attributes["function_type"] = ir.TypeAttr.get(type_)
        if "res_attrs" in graph.attributes:
            del graph.attributes["res_attrs"]
        for name in (OUTPUTS, STORAGES, SHAPES):
            if name in graph.attributes:
                del graph.attributes[name]
        maps = [ir.AffineMapAttr.get(size_map(shape_of(value))) for value in results]
        graph.attributes[SHAPES] = ir.ArrayAttr.get(maps)
    return copy


def _wrong_value(before: ir.Module, after: ir.Module, inputs: Values) -> Fusion | None:
    """The first op of `after` that makes what no value of `before` is, and of which a result of the graph is made."""
    known = reference(_returning_all(before), inputs).relaxed(SLACK)
    graph = choose(after, None).regions[0].blocks[0]
    values = _values(after, inputs)
    needed = _slice(end_of(graph))
    for value in filter(needed.__contains__, _made(graph)):
        op = value.owner.operation
        alike = [n for n, own in enumerate(known.own) if _same_kind(own, values[value])]
        told = [_differences(known, number, values[value]) for number in alike]
        if alike and all(told) and op.name in ("func.call", "bascule.compute", "bascule.scan", "bascule.scatter"):
            called = op.attributes["callee"].value if op.name == "func.call" else ""
            if called and is_extern(_function(after, called)):
                continue
            held = _kernels(after).get(called, op)
            return _fusion(f"@{called}" if called else op.name, held, min(told, key=len))
    return None


def _same_kind(own: torch.Tensor, value: torch.Tensor | int) -> bool:
    return isinstance(value, torch.Tensor) and (own.dtype, own.shape) == (value.dtype, value.shape)


def _function(module: ir.Module, name: str) -> ir.Operation:
    return next(f for f in functions(module) if f.attributes["sym_name"].value == name)


def _differences(known: Reference, number: int, value: torch.Tensor | int) -> tuple[str, ...]:
    assert isinstance(value, torch.Tensor)
    return known.select([number]).compare([value]).differences


def _slice(end: ir.Operation) -> set[ir.Value]:
    """The values that the returned ones are made of, themselves among them."""
    todo, seen = list(end.operands), set[ir.Value]()
    while todo:
        value = todo.pop()
        if value not in seen:
            seen.add(value)
            if not isinstance(value.owner, ir.Block):
                todo += _read(value.owner.operation)
    return seen


def _read(op: ir.Operation) -> Iterator[ir.Value]:
    found: list[ir.Value] = []

    def visit(view: ir.Operation) -> ir.WalkResult:
        found.extend(view.operation.operands)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    yield from found
