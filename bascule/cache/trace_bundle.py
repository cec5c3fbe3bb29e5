"""A trace as the remote cache has it: its entry and those of its graphs, with their kernels, in one: one round trip brings all of it."""

from collections.abc import Iterable, Iterator, Mapping

from bascule.runtime.packages.container import PackageError, pack, unpack

from .stores.backed_store import BackedStore

_TRACE = "trace"


def share(traces: BackedStore, graphs: BackedStore, key: str, trace: bytes, keys: Iterable[str]) -> None:
    """Writes the entry `trace`, and those of its graphs by their `keys`, under `key`; once all are kept, for threads may still make kernels."""
    if traces.remote is None:
        return
    wanted, found = list(dict.fromkeys(keys)), dict[str, bytes]()

    def make() -> bytes | None:
        for key in wanted:
            content = None if key in found else graphs.here(key)
            if content is not None:
                found[key] = content
        return pack({}, {_TRACE: trace, **found}) if len(found) == len(wanted) else None

    traces.remote.put(traces.kind, key, make)


def shared(traces: BackedStore, keys: Iterable[str]) -> Iterator[tuple[str, bytes, Mapping[str, bytes]]]:
    """Of the traces that the remote cache has under `keys`: the key, the entry, and those of its graphs. Raises `PackageError`."""
    for key, bundle in ({} if traces.remote is None else traces.remote.get(traces.kind, [*keys])).items():
        _, blobs = unpack(bundle)
        trace = blobs.pop(_TRACE, None)
        if trace is None:
            raise PackageError("no trace among graphs")
        yield key, trace, blobs
