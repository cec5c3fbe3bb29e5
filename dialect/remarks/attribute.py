"""`bascule.remarks`: the remarks of passes (`dialect/remarks/record.py`) as attributes of functions and of ops at their top level.

Each is a dictionary of `pass`, `kind`, `decision`, `reason`, `op`, and where they are known `at` (the op's line), `partner`, `partner_at` and
`cost` (i64, bytes). A text instead of a dictionary is a note."""

from collections.abc import Iterable, Iterator

from ..ir.functions import REMARKS, functions, kernel_op
from ..ir.locations import operators_of, source_of
from ..mlir import ir
from .record import NOTE, Place, Remark


def place(op: ir.Operation) -> Place:
    """The operator and the line of an op."""
    operators = operators_of(op.location)
    return Place(operators[-1] if operators else op.name, source_of(op.location))


def add_remark(op: ir.Operation, *remarks: Remark | str) -> None:
    """Adds remarks to those that `op` has; of one in a body, to those of the op around it at the top level of its function."""
    made = [ir.StringAttr.get(r, op.context) if isinstance(r, str) else _attribute(r, op.context) for r in remarks]
    _add(_holder(op.operation), made)


def _holder(op: ir.Operation) -> ir.Operation:
    parent = op.parent
    while parent is not None and parent.operation.name not in ("func.func", "builtin.module"):
        op, parent = parent.operation, parent.operation.parent
    return op


def keep_remarks(made: ir.Operation, replaced: Iterable[ir.Operation]) -> None:
    """Adds the remarks of ops that `made` replaces to its own, each once."""
    _add(made, [remark for op in replaced if REMARKS in op.attributes for remark in op.attributes[REMARKS]])


def _add(op: ir.Operation, added: list[ir.Attribute]) -> None:
    known = list(op.attributes[REMARKS]) if REMARKS in op.attributes else []
    if added:
        op.attributes[REMARKS] = ir.ArrayAttr.get(list(dict.fromkeys([*known, *added])), op.context)


def remarks(module: ir.Module) -> list[Remark]:
    """The remarks of passes, in order: of every function, and of the ops at its top level."""
    found = list[Remark]()
    all_functions = functions(module)
    kernels = {f.attributes["sym_name"].value for f in all_functions if kernel_op(f) is not None}
    for function in all_functions:
        name, blocks = function.attributes["sym_name"].value, function.regions[0].blocks
        ops = [view.operation for view in blocks[0].operations] if len(blocks) else []
        for op in (function, *ops):
            if REMARKS in op.attributes:
                callee = op.attributes["callee"].value if op.name == "func.call" else ""
                found += _read(op, name, callee if callee in kernels else "")
    return found


def _attribute(remark: Remark, context: ir.Context) -> ir.Attribute:
    texts = {"pass": remark.pass_name, "kind": remark.kind, "decision": remark.decision, "reason": remark.reason}
    texts |= {"op": remark.op.operator} | ({"at": remark.op.source} if remark.op.source else {})
    if remark.partner is not None:
        texts |= {"partner": remark.partner.operator}
        texts |= {"partner_at": remark.partner.source} if remark.partner.source else {}
    fields: dict[str, ir.Attribute] = {key: ir.StringAttr.get(text, context) for key, text in texts.items()}
    if remark.cost is not None:
        fields["cost"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), remark.cost)
    return ir.DictAttr.get(fields, context)


def _read(op: ir.Operation, function: str, kernel: str) -> Iterator[Remark]:
    for attribute in op.attributes[REMARKS]:
        if isinstance(attribute, ir.DictAttr):
            fields = {named.name: named.attr.value for named in attribute}
            partner = Place(fields["partner"], fields.get("partner_at")) if "partner" in fields else None
            pass_name, kind, decision, reason = (fields.get(key, "") for key in ("pass", "kind", "decision", "reason"))
            yield Remark(
                pass_name,
                kind,
                decision,
                reason,
                Place(fields.get("op", op.name), fields.get("at")),
                partner,
                fields.get("cost"),
                function,
                kernel,
            )
        else:
            yield Remark("", NOTE, "", attribute.value, place(op), function=function, kernel=kernel)
