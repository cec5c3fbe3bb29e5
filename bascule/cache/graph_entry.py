"""A compiled graph's entry in the disk cache: a package (`runtime/packages/container.py`) of its wrapper, its kernels and its summary.

Source lines are numbered in an entry; who loads it puts lines of its own in. What cannot be read in full, was changed, or belongs to others is
as if it were not there. Nothing here needs a compiler.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from bascule.runtime.packages.container import pack

from ..options import Options
from ..reporting.counters import count
from ..reporting.graph_summary import Summary
from ..targets.kernel_images import restored
from .disk.entry_paths import GRAPHS
from .entries import opened, refusing, write
from .stores.backed_store import BackedStore, store_of
from .stores.recorded import record

if TYPE_CHECKING:
    from ..cudagraphs.serialized import SerializedReplay

_MARK = re.compile("\0(\\d+)\0")


def bypassed(options: Options) -> str | None:
    """Why nothing is loaded or kept, as the options and the environment say; None if they do not."""
    if not options.cache:
        return "the option 'cache' is off"
    if options.dump is not None:
        return "a dump was asked for"
    if options.replay is not None:
        return "a dump is replayed"
    if options.verify:
        return "verification was asked for"
    if torch.compiler.config.force_disable_caches:
        return "torch.compiler.config.force_disable_caches"
    return "BASCULE_CACHE_DIR is empty" if store_of(GRAPHS) is None else None


@dataclass(frozen=True)
class Entry:
    """A compiled graph from the cache; `kernels` are for `bascule.runtime.load`."""

    wrapper: str
    kernels: Any
    summary: Summary


@dataclass(frozen=True)
class SerializedGraph:
    """A compiled graph that is in the cache under `key`: what loading it takes that its entry does not hold.

    `places`: its source lines by number; `target` and `device`: see `restored`; `nodes`: of the FX graph;
    `subjects`: see `bascule/reporting/device_warnings.py`; `replay`: how it is recorded as a CUDA graph, or why it is not, if that was asked;
    `tangents`: numbers of a backward's inputs that are gradients.
    """

    key: str
    places: Sequence[str]
    target: str
    device: int | None
    nodes: int
    subjects: Sequence[str]
    constants: Sequence[torch.Tensor]
    replay: "SerializedReplay | None" = None
    tangents: Sequence[int] = ()


def read(store: BackedStore, key: str, places: Sequence[str], target: str, device: int | None) -> Entry | None:
    """The graph of `key`, or None; what happened is counted."""
    with refusing("cache"):
        content = store.read(key)
        if content is None:
            count("cache", "miss")
            return None
        description, blobs = opened(key, content)
        kernels = {name.removeprefix("kernels/"): blob for name, blob in blobs.items() if name.startswith("kernels/")}
        for name in kernels:
            if name.endswith(".json"):
                kernels[name] = _placed(kernels[name].decode(), places).encode()
        wrapper = _placed(blobs["wrapper"].decode(), places)
        entry = Entry(wrapper, restored(target, device, kernels), Summary.from_json(description["summary"]))
        count("cache", "hit")
        record(store.local, key, content)
        return entry
    return None


def keep(
    store: BackedStore, key: str, places: Sequence[str], wrapper: str, kernels: Mapping[str, bytes], summary: Summary
) -> bool:
    """Writes an entry, if the disk takes it; texts among `kernels` have names that end in `.json`."""
    blobs = {"wrapper": _marked(wrapper, places).encode()}
    for name, blob in kernels.items():
        blobs[f"kernels/{name}"] = _marked(blob.decode(), places).encode() if name.endswith(".json") else blob
    return write(store, key, pack({"key": key, "summary": summary.to_json()}, blobs))


def _placed(text: str, places: Sequence[str]) -> str:
    """Undoes `_marked`, with the source lines of the graph at hand."""
    return _MARK.sub(lambda mark: places[int(mark.group(1))], text)


def _marked(text: str, places: Sequence[str]) -> str:
    """`text` with the numbers of its source lines."""
    if not places:
        return text
    numbers = {place: number for number, place in enumerate(places)}
    longest_first = sorted(map(re.escape, places), key=len, reverse=True)
    return re.sub("|".join(longest_first), lambda match: f"\0{numbers[match.group()]}\0", text)
