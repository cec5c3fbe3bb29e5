"""The `bascule` dialect object, and how its operations are declared.

Operations are classes of MLIR's `ext` bindings, which turn them into IRDL. Two facts of IRDL shape the dialect:
all elements of one variadic group must have the same type (so whatever joins values of several types is an upstream
op: kernels and ATen operators are functions, called by `func.call`), and a variadic group costs a segment attribute
only when there are two of them (so no op of ours has two).
"""

from collections.abc import Sequence
from typing import Any

from ..last_words import named
from ..mlir import ext, ir


class Bascule(ext.Dialect, name="bascule"):
    """The dialect: see `docs/dialect.md`."""


class Writes:
    """Trait: the op writes memory (or a destination), so it is neither removed nor merged."""

    class WriteEffect(ir.MemoryEffectsOpInterface):
        @staticmethod
        def get_effects(op, effects):
            effects.append(ir.MemoryEffect.Write)

    @staticmethod
    def attach(op_name: str) -> None:
        Writes.WriteEffect.attach(op_name)


def declare(cls: type) -> type:
    """Class decorator for an op of one variadic group at most: no segment attributes, flat accessors.

    `ext` would ask for `operandSegmentSizes` on every op that has a variadic group. The op's own verifier, which runs before that of IRDL, is
    asked only where all that it looks at is there; IRDL's complains otherwise.
    """
    operands, attributes, results, regions = ext.partition_fields(cls._fields)
    for fields, part in ((operands, "operands"), (results, "results")):
        variadic = [f for f in fields if f.variadicity == ext.Variadicity.variadic]
        assert len(variadic) <= 1 and (not variadic or fields[-1] is variadic[0]), cls
        for i, field in enumerate(fields):
            if field in variadic:
                getter = property(lambda self, i=i, part=part: list(getattr(self.operation, part))[i:])
            else:
                getter = property(lambda self, i=i, part=part: getattr(self.operation, part)[i])
            setattr(cls, field.name, getter)
    cls._ODS_OPERAND_SEGMENTS = None
    cls._ODS_RESULT_SEGMENTS = None
    verify = getattr(cls, "verify_invariants", None)
    if verify is not None:
        kinds = {field.name: field.constraint for field in attributes}
        counts = {"operands": _least(operands), "results": _least(results), "regions": len(regions)}
        checked = lambda self: not _has(self.operation, kinds, counts) or verify(self)  # noqa: E731
        cls.verify_invariants = named(checked, f"verify '{cls.OPERATION_NAME}'")
    return cls


def _least(fields: Sequence[Any]) -> int:
    return sum(field.variadicity == ext.Variadicity.single for field in fields)


def _has(op: ir.Operation, kinds: dict[str, type], counts: dict[str, int]) -> bool:
    """Whether `op` has the attributes of `kinds`, of those classes, and as many of its parts at least as `counts` says."""
    return all(_has_kind(op, name, kind) for name, kind in kinds.items()) and all(
        len(getattr(op, part)) >= count for part, count in counts.items()
    )


def _has_kind(op: ir.Operation, name: str, kind: type) -> bool:
    try:
        return name in op.attributes and isinstance(op.attributes[name], kind)
    except TypeError:  # the bindings have no class for an array of such elements
        return False


def build(
    cls: type,
    *,
    results: Sequence[ir.Type] = (),
    operands: Sequence[ir.Value] = (),
    attributes: dict[str, ir.Attribute] | None = None,
    loc: ir.Location | None = None,
) -> Any:
    """Creates an op of class `cls` at the current insertion point, with empty regions, and returns its view."""
    return ir.Operation.create(
        cls.OPERATION_NAME,
        results=results,
        operands=operands,
        attributes=attributes,
        regions=cls._ODS_REGIONS[0],
        loc=loc,
    ).opview


def fail(op: Any, message: str) -> bool:
    """Reports a verifier's complaint at the op's location; returns False, as a verifier does."""
    op.location.emit_error(f"'{op.operation.name}' op {message}")
    return False
