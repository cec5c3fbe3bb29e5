"""The pretty form of a module: names of values from the operators, the sizes of loops in their heads, no aliases of attributes, schedules in
one line that begins with the form that was chosen. It parses back, or says at its top that it does not."""

import re
from dataclasses import dataclass, field
from typing import Any

from ..ir import context
from ..ir.attributes import ScheduleAttr
from ..mlir import ir
from .value_names import Names, argument_names, callee_names, result_name

_FIRST = ("target", "kind", "tile", "order")  # of a schedule: the form that was chosen; how it is run comes after
_HEAD = re.compile(r"%([\w$.-]+)\.head(\d+)\b")
_SCHEDULE = re.compile(r'"bascule\.pretty\.schedule\.(\d+)"')


def pretty(module: ir.Module, **printing: Any) -> str:
    """The pretty form; `printing` are parameters of the bindings' printer beside it. Takes a time that is linear in the module's size.

    The text is parsed and compared to the module: where it does not stand for the same, or nothing could, its first line tells why.
    """
    operation = module.operation
    with operation.context, ir.Location.unknown():
        if not _verifies(operation):
            text = operation.get_asm(**{**printing, "print_generic_op_form": True})
            return _not_parsed_back("the module does not verify", text)
        clone = _Clone(operation.clone().operation)
        clone.name_all()
        text = clone.text(
            {**printing, "use_local_scope": True, "use_name_loc_as_prefix": True, "assume_verified": True}
        )
        text += _resources(operation, text, printing)
        why = _difference(operation, text)
        return _not_parsed_back(why, text) if why else text


def _not_parsed_back(why: str, text: str) -> str:
    return f"// This form does not parse back: {why}.\n{text}"


def _verifies(operation: ir.Operation) -> bool:
    try:
        return operation.verify()
    except ir.MLIRError:
        return False


def _difference(operation: ir.Operation, text: str) -> str | None:
    """Tells why `text` does not stand for the module; None where it does."""
    another = context()  # in its own the elements of constants would get other names
    another.allow_unregistered_dialects = operation.context.allow_unregistered_dialects
    try:
        parsed = ir.Module.parse(text, another).operation
    except ir.MLIRError as error:
        told = [diagnostic.message for diagnostic in error.error_diagnostics] or [str(error).splitlines()[0]]
        return told[0].replace("\n", " ")
    same = parsed.get_asm(assume_verified=True) == operation.get_asm(assume_verified=True)
    return None if same else "what is parsed is another module"


def _resources(operation: ir.Operation, text: str, printing: dict[str, Any]) -> str:
    """The elements of the constants that `text` names, which MLIR prints behind a module, but not in its local scope."""
    if "dense_resource<" not in text or printing.get("skip_regions"):
        return ""
    whole = operation.get_asm(**{**printing, "assume_verified": True, "use_local_scope": False})
    return whole[whole.rindex("\n\n{-#") :] if "\n\n{-#" in whole else ""


@dataclass
class _Clone:
    """A module that is printed and thrown away: its locations are names of values, and schedules are numbers of `schedules`."""

    module: ir.Operation
    heads: list[str] = field(default_factory=list)  # comments behind the arguments of blocks
    schedules: list[str] = field(default_factory=list)
    callees: dict[str, str] = field(default_factory=dict)

    def name_all(self) -> None:
        self.callees = callee_names(self.module)
        self._name_regions(self.module, Names(), 0)

    def _name_regions(self, op: ir.Operation, names: Names, depth: int) -> None:
        """Names the values in the regions of `op`, those of a region before those in regions of its ops: that is how MLIR sees them."""
        for region in op.regions:
            with names.inside():
                inner, below = list[ir.Operation](), depth
                for block in region.blocks:
                    below = max(below, self._name_arguments(block, names, depth))
                    for view in block.operations:
                        each = view.operation
                        has_results = len(each.results) > 0
                        name = names.unique(result_name(each, self.callees)) if has_results else ""
                        each.location = ir.Location.name(name) if has_results else ir.Location.unknown()
                        if len(each.regions):
                            inner.append(each)
                for each in inner:
                    is_function = each.name in ("func.func", "builtin.module")
                    self._fold_schedule(each)
                    self._name_regions(each, Names() if is_function else names, 0 if is_function else below)

    def _name_arguments(self, block: ir.Block, names: Names, depth: int) -> int:
        """Names the arguments, the first with the number of the comment that belongs behind them. Returns how many indices there are then."""
        given = [names.unique(name) for name in argument_names(block, depth)]
        indices = sum(isinstance(argument.type, ir.IndexType) for argument in block.arguments)
        sizes = _sizes(block.owner.operation)
        if sizes and len(sizes) <= len(given):
            told = ", ".join(f"%{name} < {size}" for name, size in zip(given, sizes))
            marked = f"{given[0]}.head{len(self.heads)}"
            self.heads.append(told)
            given = [marked, *given[1:]]
        for argument, name in zip(block.arguments, given):
            argument.set_location(ir.Location.name(name))
        return depth if block.owner.operation.name == "func.func" else depth + indices

    def _fold_schedule(self, op: ir.Operation) -> None:
        if "schedule" in op.attributes and isinstance(op.attributes["schedule"], ScheduleAttr):
            config = ir.DictAttr(op.attributes["schedule"].config)
            op.attributes["schedule"] = ir.StringAttr.get(f"bascule.pretty.schedule.{len(self.schedules)}")
            self.schedules.append(f"#bascule.schedule<{_folded(config)}>")

    def text(self, printing: dict[str, Any]) -> str:
        lines = []
        for line in self.module.get_asm(**printing).split("\n"):
            mark = _HEAD.search(line) if line.lstrip().startswith("^") else None
            line = _SCHEDULE.sub(lambda match: self.schedules[int(match[1])], _HEAD.sub(r"%\1", line))
            lines.append(f"{line}  // {self.heads[int(mark[2])]}" if mark else line)
        return "\n".join(lines)


def _sizes(op: ir.Operation) -> list[str]:
    """The sizes of the domain of an op of ours, as its symbols have them."""
    if not op.name.startswith("bascule.") or "ranges" not in op.attributes:
        return []
    return [str(size) for size in op.attributes["ranges"].value.results]


def _folded(attribute: ir.Attribute) -> str:
    """An attribute as text that parses to it: dictionaries with the form that was chosen first, integers without the type of most."""
    if isinstance(attribute, ir.DictAttr):
        named = {entry.name: entry.attr for entry in attribute}
        order = [*(key for key in _FIRST if key in named), *(key for key in named if key not in _FIRST)]
        return f"{{{', '.join(f'{_key(key)} = {_folded(named[key])}' for key in order)}}}"
    if isinstance(attribute, ir.ArrayAttr):
        return f"[{', '.join(map(_folded, attribute))}]"
    return str(attribute).removesuffix(" : i64") if isinstance(attribute, ir.IntegerAttr) else str(attribute)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w$.]*", name) else f'"{name}"'
