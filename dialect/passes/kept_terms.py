"""Applications of index maps that MLIR would take for another number, or never be done with, hidden while a pass of its own runs
(`mixed_terms.py` has the reasons)."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..analysis.affine.mixed_terms import Tree, divides, mixes, multiplies, swings, tree
from ..ir.regions import ops_named
from ..mlir import ir

_APPLY, _CAST = "affine.apply", "builtin.unrealized_conversion_cast"
_MAP = "bascule.apply"  # on the cast: the map of the application that it stands for
LOWERS = ("lower-affine",)  # expands each map as it is


@contextmanager
def terms_kept(module: ir.Module) -> Iterator[None]:
    """Every `affine.apply` inside that MLIR must not compose or simplify is as it was afterwards."""
    hidden = _mixing([op for _, op in ops_named(module.operation, {_APPLY})])
    for op in hidden:
        # A cast of one operand to its own type would be folded.
        _replaced(op, _CAST, _MAP, op.attributes["map"], [*op.operands, op.operands[0]])
    try:
        yield
    finally:
        for _, op in ops_named(module.operation, {_CAST}) if hidden else []:
            if _MAP in op.attributes:
                _replaced(op, _APPLY, "map", op.attributes[_MAP], list(op.operands)[:-1])


def _replaced(op: ir.Operation, name: str, key: str, map_: ir.Attribute, operands: list[ir.Value]) -> None:
    rest = {a: op.attributes[a] for a in op.attributes if a not in ("map", _MAP)}
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(name, [op.results[0].type], operands, {**rest, key: map_})
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def _mixing(applies: list[ir.Operation]) -> list[ir.Operation]:
    """Those of `applies`, in order, to hide. MLIR composes the others with what they apply to."""
    maps = {op.attributes["map"] for op in applies}
    if not any(divides(whole) or multiplies(whole) for whole in (tree(map_.value.results[0]) for map_ in maps)):
        return []
    found, trees = [], dict[ir.Value, Tree]()
    for op in applies:
        map_, sides = op.attributes["map"].value, [trees.get(operand, ("v", operand)) for operand in op.operands]
        whole = tree(map_.results[0], sides[: map_.n_dims], sides[map_.n_dims :])
        if mixes(whole) or swings(whole):
            found.append(op)
        else:
            trees[op.results[0]] = whole
    return found
