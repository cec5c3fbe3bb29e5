"""A schedule like another, with some keys changed: plain Python in place of attributes."""

from typing import Any

from ..ir.attributes import i64
from ..mlir import ir


def changed(schedule: ir.DictAttr, **keys: Any) -> ir.DictAttr:
    """`schedule` with other values at `keys`: numbers, texts, booleans, lists of numbers. A dictionary changes the keys that it has of the one
    that is there, a list of dictionaries those of the entries at their places."""
    found = {entry.name: entry.attr for entry in schedule}
    with schedule.context:
        return ir.DictAttr.get({**found, **{key: _attribute(value, found.get(key)) for key, value in keys.items()}})


def _attribute(value: Any, was: ir.Attribute | None) -> ir.Attribute:
    match value:
        case ir.Attribute():
            return value
        case bool():
            return ir.BoolAttr.get(value)
        case int():
            return i64(value)
        case str():
            return ir.StringAttr.get(value)
        case dict():
            return changed(was if isinstance(was, ir.DictAttr) else ir.DictAttr.get({}), **value)
        case [dict(), *_]:
            entries = list(was) if isinstance(was, ir.ArrayAttr) else []
            entries += [None] * (len(value) - len(entries))
            new = [_attribute(v, entry) for v, entry in zip(value, entries)]
            return ir.ArrayAttr.get([*new, *entries[len(value) :]])
        case list() | tuple():
            return ir.DenseI64ArrayAttr.get(list(value))
    raise TypeError(f"{value!r} is nothing that a schedule has")
