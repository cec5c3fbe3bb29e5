"""The three kinds of function in a module, told apart by an attribute.

- graph function (`bascule.graph`): the imported graph. Symbols first (`index`), then tensors. `bascule.storages` (i64 array): a number
  for each tensor argument, then for each result; two that are equal share a storage in the imported graph, others do not; -1: may
  share memory with others of that number. A tensor argument with the attribute `bascule.dies` is held by nobody but the call, if not by
  who made the call: whether the call may write it shows when it runs; one with `bascule.any_strides` may be given with other strides than
  its type tells, and is copied then (no graph writes such a one). A result with `bascule.returned_as` is, for autograd, a `"view"` of the
  tensor in whose memory it lies, `"detached"` from it, or a `"view of detached"`; `"saved"`: for the backward alone, with the version of
  that tensor. One with `bascule.strides` has these, where a type keeps no strides of dimensions of size 1: by them PyTorch tells channels-last.
- kernel function: private, its body is destinations (`bufferization.alloc_tensor`), one `bascule.kernel`, a return of the
  destinations; in the program stage the destinations are trailing memref arguments. It takes ALL symbols of the graph
  function, in the same order, so symbol numbers mean the same in both.
- ATen function (`bascule.extern = "aten.mm.default"`): a private declaration; `bascule.arguments` is the operator's argument
  list in schema order: `#bascule.operand<k>` a tensor operand, `unit` None, i64 / f64 / bool / string constants, `array<f64: re, im>` a
  complex one, lists, an `affine_map<()[s0] -> (..)>` an integer computed from symbols. `bascule.results` (i64 array) are the positions of the
  operator's outputs that the function returns; `bascule.mutates` (i64 array) the tensor operands that the operator writes: the function returns
  their new contents after those, and the caller's tensors stay as they are. `bascule.reason` says why the operator is not generated.
  `bascule.effects` on it says that calls keep their order and their number, whatever uses the results; `bascule.begins`, that operands may be
  read and results written until a later call has waited for these, which nothing else may look at; `bascule.ranks`, how many
  ranks the group of a collective has, where that is known. Operands that no argument names are needed until the call: those of what it
  waits for.
  An ATen function takes no symbols, and none of its results shares memory with an operand.

Each has `bascule.shapes`, an array of size maps, one a result, where a result is dynamic; and so have calls of it, as a function is found
by its name in a table of all only. An argument of dynamic size has `bascule.shape`, its size map.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import UserError
from ..mlir import func, ir
from .locations import source_of

GRAPH = "bascule.graph"
EXTERN = "bascule.extern"
ARGUMENTS = "bascule.arguments"
RESULTS = "bascule.results"
MUTATES = "bascule.mutates"
SHAPE = "bascule.shape"
SHAPES = "bascule.shapes"
REASON = "bascule.reason"
OUT = "bascule.out"
EFFECTS = "bascule.effects"
BEGINS = "bascule.begins"
RANKS = "bascule.ranks"  # of a collective: how many its group has
STORAGES = "bascule.storages"
DIES = "bascule.dies"
RETURNED_TOO = (
    "bascule.returned_too"  # on an argument: what a forward saved and the user was given too, who may have let go of it
)
TANGENT = "bascule.tangent"  # on an argument: a gradient beside a loss's, which autograd mostly does not have
NULLABLE = "bascule.nullable"  # on an argument: its address may be 0; then its elements are
CHUNK_ROWS = "bascule.chunk_rows"  # on a graph: bytes from which `chunk-rows` makes a tensor by chunks
GIVEN = (
    "bascule.given_bytes"  # on a graph: bytes by which `choose-products` decides, in place of those of its arguments
)
RETURNED_AS = "bascule.returned_as"  # on a result: one of VIEWS; without it, a tensor that autograd takes for no view
VIEWS = VIEW, DETACHED, VIEW_OF_DETACHED, SAVED = ("view", "detached", "view of detached", "saved")
STRIDES = "bascule.strides"  # on a result: its strides, where its type does not have those of dimensions of size 1
OVER = "bascule.over"
CHECKED = "bascule.checked"  # on what clamps an index: a lowering asserts that there was nothing to clamp
ANY_STRIDES = "bascule.any_strides"
RANGE = "bascule.range"  # on an argument: the least and the greatest element of what stands for it where none is given
CONSTANT = "bascule.constant"  # on an argument: the attribute of the graph module that the tensor is
SYMBOLS = "bascule.symbols"
SYMBOL_SOURCES = "bascule.symbol_sources"
SEEN = "bascule.seen"  # on a graph: what each symbol was at the call that it was traced for, 0 where that is not known
INPUTS = "bascule.inputs"
OUTPUTS = "bascule.outputs"
STORED = "bascule.stored"  # on a compute: its result is read from memory, where it lies as its readers' lanes run
REMARKS = (
    "bascule.remarks"  # on a function, or an op at its top level: what passes decided (`dialect/remarks/attribute.py`)
)


def functions(module: ir.Module) -> list[ir.Operation]:
    """All functions of a module, in order."""
    return [op.operation for op in module.body.operations if op.operation.name == "func.func"]


def is_extern(function: ir.Operation) -> bool:
    return EXTERN in function.attributes


def acts(op: ir.Operation, table: ir.SymbolTable) -> bool:
    """Whether `op` calls a function with `bascule.effects`."""
    return op.name == "func.call" and EFFECTS in table[op.attributes["callee"].value].operation.attributes


def kernel_op(function: ir.Operation) -> ir.Operation | None:
    """The `bascule.kernel` of a kernel function, else None. A graph, which may be long, is not searched."""
    if GRAPH in function.attributes or is_extern(function) or not len(function.regions[0].blocks):
        return None
    for op in function.regions[0].blocks[0].operations:
        if op.operation.name == "bascule.kernel":
            return op.operation
    return None


def isolated_kernel(function: ir.Operation) -> ir.Operation:
    """The `bascule.kernel` of a kernel function, for a lowering, which sees arguments and destinations alone. Raises `UserError` at what else it
    takes from its function."""
    kernel = kernel_op(function)
    assert kernel is not None, "a lowering asks kernel functions"
    for view in function.regions[0].blocks[0].operations:
        op = view.operation
        if op.name not in ("affine.apply", "arith.constant"):
            continue
        for use in op.results[0].uses:
            if use.owner.operation.block != op.block:
                told = f"the kernel of @{function.attributes['sym_name'].value} takes '{op.name}' from outside"
                raise UserError(told, location=source_of(op.location), hint="isolate-kernels repeats it inside")
    return kernel


def graph_functions(module: ir.Module) -> list[ir.Operation]:
    """The functions with a body that are neither kernels nor ATen operators."""
    return [f for f in functions(module) if len(f.regions[0].blocks) and not is_extern(f) and kernel_op(f) is None]


def argument_attributes(function: ir.Operation) -> list:
    """The attributes of each argument of a function with a body."""
    if "arg_attrs" in function.attributes:
        return list(function.attributes["arg_attrs"])
    return [{}] * len(function.regions[0].blocks[0].arguments)


def mark_arguments(function: ir.Operation, numbers: Iterable[int], name: str) -> None:
    """Puts the unit attribute `name` on the arguments of these `numbers`."""
    attributes = [{entry.name: entry.attr for entry in told} for told in argument_attributes(function)]
    for number in numbers:
        attributes[number][name] = ir.UnitAttr.get()
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(told) for told in attributes])


def replace_extern_calls(module: ir.Module, replace: Callable[[ir.Operation, ir.Operation], bool]) -> None:
    """Offers `replace` each call of an ATen function at the top level of the graphs, with the function; it says whether the call is gone. So
    are then the declarations of functions all of whose calls are."""
    externs = {f.attributes["sym_name"].value: f for f in functions(module) if is_extern(f)}
    replaced, kept = set[str](), set[str]()
    for graph in graph_functions(module) if externs else ():
        for op in [view.operation for view in graph.regions[0].blocks[0].operations]:
            callee = op.attributes["callee"].value if op.name == "func.call" else ""
            if callee in externs:
                (replaced if replace(op, externs[callee]) else kept).add(callee)
    for callee in replaced - kept:
        externs[callee].erase()


class Externs:
    """The ATen functions of a module: equal calls share one declaration."""

    def __init__(self, module: ir.Module):
        self.module = module
        self.table = ir.SymbolTable(module.operation)
        self.known = {
            self._key(f.attributes): f.attributes["sym_name"].value for f in functions(module) if is_extern(f)
        }

    @staticmethod
    def _key(attributes: ir.OpAttributeMap | dict[str, ir.Attribute]) -> tuple:
        names = (EXTERN, ARGUMENTS, RESULTS, MUTATES, SHAPES, "function_type")
        return tuple(attributes[name] if name in attributes else None for name in names)

    def begins(self, op: ir.Operation) -> bool:
        """Whether `op` calls a function with `bascule.begins`."""
        return op.name == "func.call" and BEGINS in self.table[op.attributes["callee"].value].operation.attributes

    def call(
        self,
        callee: str,
        arguments: Sequence[ir.Attribute],
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        *,
        positions: Sequence[int] | None = None,
        mutates: Sequence[int] | None = None,
        shapes: Sequence[ir.AffineMap] | None = None,
        reason: str | None = None,
        out: str | None = None,
        effects: bool = False,
        begins: bool = False,
        ranks: int | None = None,
    ) -> list[ir.Value]:
        """Calls the operator `callee` ("aten.mm.default") at the current insertion point; returns the tensor results.

        `reason`, `out`, `effects`, `begins` and `ranks` are the function's `bascule.reason`, and so on.
        """
        type_ = ir.FunctionType.get([operand.type for operand in operands], list(results))
        attributes = {
            EXTERN: ir.StringAttr.get(callee),
            ARGUMENTS: ir.ArrayAttr.get(list(arguments)),
            RESULTS: ir.DenseI64ArrayAttr.get(list(range(len(results)) if positions is None else positions)),
        }
        if mutates is not None:
            attributes[MUTATES] = ir.DenseI64ArrayAttr.get(list(mutates))
        if ranks is not None:
            attributes[RANKS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), ranks)
        if shapes is not None:
            attributes[SHAPES] = ir.ArrayAttr.get([ir.AffineMapAttr.get(shape) for shape in shapes])
        key = self._key({**attributes, "function_type": ir.TypeAttr.get(type_)})
        if key not in self.known:
            with ir.InsertionPoint.at_block_begin(self.module.body):
                function = func.FuncOp(callee.removesuffix(".default"), type_, visibility="private").operation
            for name, attribute in attributes.items():
                function.attributes[name] = attribute
            for name, holds in ((EFFECTS, effects), (BEGINS, begins)):
                if holds:
                    function.attributes[name] = ir.UnitAttr.get()
            for name, text in ((REASON, reason), (OUT, out)):
                if text is not None:
                    function.attributes[name] = ir.StringAttr.get(text)
            self.table.insert(function)  # makes the name unique
            self.known[key] = function.attributes["sym_name"].value
        call = func.CallOp(list(results), self.known[key], list(operands)).operation
        if shapes is not None:
            call.attributes[SHAPES] = attributes[SHAPES]
        return list(call.results)


def parameters_of(schema: Any, mutates: bool) -> list[Any]:
    """The arguments of an ATen operator's schema that `bascule.arguments` has a value for. (One by keyword that an operator of a user's writes
    looks like a destination.)"""
    return [p for p in schema.arguments if mutates or not p.is_out]
