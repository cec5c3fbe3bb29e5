"""Names of SSA values from what makes them: `%add`, `%relu_1`, `%i`. A name hangs on its op and on ops of the same name above it alone, so
that an edit elsewhere changes none."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..ir.functions import EXTERN
from ..ir.locations import operators_of
from ..ir.types import symbols_among
from ..mlir import ir

INDICES = "ijklmnopqrst"  # of the loops around a point, outermost first
# What has another name than its op's last word.
_WORDS = {
    "torch.prim.ListConstruct": "list",
    "torch.prim.TupleConstruct": "tuple",
    "bufferization.alloc_tensor": "out",
    "memref.alloc": "buffer",
}
_MADE_OF_OPERATORS = ("bascule.", "torch.")  # dialects of ops that stand for an operator


@dataclass
class Names:
    """Names that are taken where a value can be seen: each is given once."""

    _numbers: dict[str, int] = field(default_factory=dict)  # a name -> the number of the next one like it
    _changed: list[tuple[str, int | None]] = field(default_factory=list)

    def unique(self, name: str) -> str:
        """`name`, or `name_1` and so on where it is taken."""
        given, number = name, self._numbers.get(name)
        if number is not None:
            while (given := f"{name}_{number}") in self._numbers:
                number += 1
            self._set(name, number + 1)
        self._set(given, 1)
        return given

    def _set(self, name: str, number: int) -> None:
        self._changed.append((name, self._numbers.get(name)))
        self._numbers[name] = number

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Frees, at the end, the names that are given in a region: its values are not seen below."""
        mark = len(self._changed)
        yield
        while len(self._changed) > mark:
            name, number = self._changed.pop()
            if number is None:
                del self._numbers[name]
            else:
                self._numbers[name] = number


def operator_name(text: str) -> str:
    """The word for an operator in names: `relu` of `aten.relu.default`, `cube` of `mine.cube.default`."""
    parts = text.removeprefix("torch.").split(".")
    return _identifier(parts[1] if len(parts) > 1 else parts[0])


def result_name(op: ir.Operation, callees: Mapping[str, str]) -> str:
    """The name of what `op` makes, before others of that name are told from it. `callees`: what a call of each function is called."""
    attributes = op.attributes
    if op.name.endswith(".constant") or op.name.startswith("torch.constant."):
        return _constant(op)
    if op.name == "func.call":
        callee = attributes["callee"].value
        return callees.get(callee, _identifier(callee))
    if op.name in _WORDS:
        return _WORDS[op.name]
    if op.name.startswith(_MADE_OF_OPERATORS) and _is_top(op):
        operators = operators_of(op.location)
        if operators:
            return operator_name(operators[-1])
    if op.name == "torch.operator" and "name" in attributes:
        return operator_name(attributes["name"].value)
    if op.name.startswith("torch."):
        return operator_name(op.name)
    if op.name.startswith("bascule."):
        return _of_ours(op)
    dialect, _, word = op.name.partition(".")
    # As libm has it, and `arith`: apart from the operators, whose names those of whole tensors are.
    is_float = dialect == "math" and isinstance(op.results[0].type, ir.FloatType)
    return _identifier(word + ("f" if is_float and not word.endswith("f") else ""))


def argument_names(block: ir.Block, around: int) -> list[str]:
    """The names of a block's arguments, below `around` indices of loops: symbols and tensors of a function, the indices of a loop."""
    owner, arguments = block.owner.operation, list(block.arguments)
    if owner.name == "func.func":
        symbols = symbols_among(argument.type for argument in arguments)
        return [f"s{n}" if n < symbols else f"arg{n - symbols}" for n in range(len(arguments))]
    names, depth = [], around
    for argument in arguments:
        is_index = isinstance(argument.type, ir.IndexType)
        names.append(INDICES[depth] if is_index and depth < len(INDICES) else "index" if is_index else "value")
        depth += is_index
    return names


def callee_names(module: ir.Operation) -> dict[str, str]:
    """Names for the results of each function's calls: by the operator that it stands for, else by its own name."""
    found = {}
    for function in (view.operation for region in module.regions for block in region for view in block):
        if function.name == "func.func":
            name, attributes = function.attributes["sym_name"].value, function.attributes
            found[name] = operator_name(attributes[EXTERN].value) if EXTERN in attributes else _identifier(name)
    return found


def _is_top(op: ir.Operation) -> bool:
    parent = op.parent
    return parent is None or parent.operation.name in ("func.func", "builtin.module")


def _of_ours(op: ir.Operation) -> str:
    """Ours, by their kind; a compute at the top by what its points are made by."""
    word = op.name.partition(".")[2]
    if "kind" in op.attributes and isinstance(op.attributes["kind"], ir.StringAttr):
        return _identifier(f"{word}_{op.attributes['kind'].value}")
    if word == "compute" and len(op.regions[0].blocks):
        block = op.regions[0].blocks[0]
        last = block.operations[len(block.operations) - 1].operation
        maker = last.operands[0].owner if len(last.operands) else block
        if not isinstance(maker, ir.Block) and maker.operation.name.startswith(("arith.", "math.")):
            return _identifier(f"{word}_{maker.operation.name.partition('.')[2]}")
    return _identifier(word)


def _constant(op: ir.Operation) -> str:
    """`c4`, `c4_i64`, `c0.5_f32`, `true`: by the value, where that is short."""
    value = op.attributes["value"] if "value" in op.attributes else None
    if isinstance(value, ir.BoolAttr):
        return "true" if value.value else "false"
    if isinstance(value, ir.IntegerAttr | ir.FloatAttr):
        text = f"c{value.value}".removesuffix(".0")
        suffix = "" if isinstance(value.type, ir.IndexType) or op.name.startswith("torch.") else f"_{value.type}"
        return f"{text}{suffix}" if re.fullmatch(r"c-?[\d.]{1,12}", text) else f"cst{suffix}"
    return "none" if op.name == "torch.constant.none" else "cst"


def _identifier(text: str) -> str:
    """`text` with what MLIR takes in a name: it begins with a letter or `_`."""
    clean = re.sub(r"[^\w$.-]", "_", text, flags=re.ASCII).lstrip("$.-") or "value"
    return f"_{clean}" if clean[0].isdigit() else clean
