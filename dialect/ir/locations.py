"""Where an op came from, as text: `model.py:12:0`, and the operator it was (`aten.add.Tensor`)."""

from collections.abc import Iterator

from ..mlir import ir


def _parts(location: ir.Location) -> Iterator[ir.Location]:
    """The location's leaves, outermost first."""
    location = ir.Location.from_attr(location.attr)  # an error's diagnostics carry the base class
    if isinstance(location, ir.FusedLoc):
        for part in location.locations:
            yield from _parts(part)
    elif isinstance(location, ir.CallSiteLoc):
        yield from _parts(location.callee)
    else:
        yield location
        if isinstance(location, ir.NameLoc):
            yield from _parts(location.child_loc)


def source_of(location: ir.Location) -> str | None:
    """`file:line:column` of the first file location in `location`, or None."""
    for part in _parts(location):
        if isinstance(part, ir.FileLineColLoc):
            return f"{part.filename}:{part.start_line}:{part.start_col}"
    return None


def operators_of(location: ir.Location) -> list[str]:
    """The names in `location`: the operators that an op was made from."""
    return [part.name_str for part in _parts(location) if isinstance(part, ir.NameLoc)]
