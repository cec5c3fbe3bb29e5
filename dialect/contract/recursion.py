"""Calls: no function calls itself."""

from collections.abc import Iterator, Mapping, Sequence

from ..errors import UserError
from ..ir.locations import source_of
from ..mlir import ir


def recursions(calls: Mapping[str, Sequence[ir.Operation]]) -> Iterator[UserError]:
    """Errors at the calls by which a function calls itself, by way of others too: a graph is a program of launches and ends. `calls`: those of
    each function."""
    done = set[str]()
    for start in calls:
        path: dict[str, Iterator[ir.Operation]] = {} if start in done else {start: iter(calls[start])}
        while path:
            name = next(reversed(path))
            call = next(path[name], None)
            if call is None:
                done.add(name)
                del path[name]
                continue
            callee = call.attributes["callee"].value
            if callee in path:
                way = " -> ".join(f"@{each}" for each in (*path, callee))
                yield UserError(f"a function calls itself: {way}", location=source_of(call.location))
            elif callee not in done:
                path[callee] = iter(calls.get(callee, ()))
