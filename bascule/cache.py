"""The disk cache: an imported graph whose like was compiled before, in whatever process, is loaded instead of compiled.

An entry is a package (`runtime/packages.py`): the wrapper's source, the kernels, and what `explain` and the counters tell. What happened is
counted: `hit`, `miss`, `stored`, and `bypass: reason`, `refused: reason` where the cache was not used. No state of the disk changes results:
what cannot be read in full, was changed, or belongs to others is as if it were not there.
"""

import re
from dataclasses import dataclass

import torch
from torch.fx import GraphModule

from bascule.runtime.object_code import ObjectCodeError
from bascule.runtime.packages import PackageError, pack, unpack

from .cache_artifacts import record_artifact
from .cache_directory import GRAPHS, Directory, Refused, limit, root
from .cache_key import NotKeyed, key_of, numbered
from .counting import count
from .dialect.mlir import ir
from .dialect.passes import Pipeline
from .options import Options
from .summary import Summary
from .targets import Compiled, Target

_MARK = re.compile("\0(\\d+)\0")


@dataclass(frozen=True)
class Entry:
    """A compiled graph from the cache."""

    wrapper: str
    compiled: Compiled
    summary: Summary


@dataclass(frozen=True)
class Slot:
    """Where the graph at hand belongs in the cache: its key, and its source lines by their number in the IR."""

    directory: Directory
    key: str
    places: list[str]
    target: Target

    def load(self) -> Entry | None:
        """The graph, compiled before; None if it was not, or if what is there cannot be used."""
        try:
            content = self.directory.read(self.key)
            if content is None:
                count("cache", "miss")
                return None
            entry = self._entry(content)
        except Refused as reason:
            count("cache", f"refused: {reason}")
            return None
        except (PackageError, ObjectCodeError) as reason:
            count("cache", f"refused: {reason}")
            return None
        count("cache", "hit")
        record_artifact(self.key, content)
        return entry

    def _entry(self, content: bytes) -> Entry:
        description, blobs = unpack(content)
        if description["key"] != self.key:
            raise PackageError("the entry of another graph")
        wrapper = self._placed(blobs["wrapper"].decode())
        kernels = {name.removeprefix("kernels/"): blob for name, blob in blobs.items() if name.startswith("kernels/")}
        for name in kernels:
            if name.endswith(".json"):
                kernels[name] = self._placed(kernels[name].decode()).encode()
        return Entry(wrapper, self.target.restore(kernels), Summary.from_json(description["summary"]))

    def store(self, wrapper: str, compiled: Compiled, summary: Summary) -> None:
        """Keeps a compiled graph, if its target can write down its kernels and the disk takes it."""
        kernels = self.target.saved(compiled)
        if kernels is None:
            return
        blobs = {"wrapper": self._marked(wrapper).encode()}
        for name, blob in kernels.items():
            blobs[f"kernels/{name}"] = self._marked(blob.decode()).encode() if name.endswith(".json") else blob
        content = pack({"key": self.key, "summary": summary.to_json()}, blobs)
        try:
            self.directory.write(self.key, content)
        except Refused as reason:
            count("cache", f"refused: {reason}")
            return
        count("cache", "stored")
        record_artifact(self.key, content)
        _trim(self.directory)

    def _placed(self, text: str) -> str:
        """What `_marked` left, with the source lines of the graph at hand."""
        return _MARK.sub(lambda mark: self.places[int(mark.group(1))], text)

    def _marked(self, text: str) -> str:
        """`text` with the numbers of its source lines."""
        if not self.places:
            return text
        numbers = {place: number for number, place in enumerate(self.places)}
        longest_first = sorted(map(re.escape, self.places), key=len, reverse=True)
        return re.sub("|".join(longest_first), lambda match: f"\0{numbers[match.group()]}\0", text)


_stored = 0


def _trim(directory: Directory) -> None:
    """Looks after the size of the cache now and then: it takes as long as there are entries."""
    global _stored
    _stored += 1
    if _stored % 100 == 1:
        directory.trim(limit())


def slot_for(gm: GraphModule, module: ir.Module, pipeline: Pipeline, options: Options, target: Target) -> Slot | None:
    """The slot of a graph that was just imported; None, and a counted reason, if the cache is not for it."""
    reason = _bypass(options, target)
    folder = root()
    if reason is None and folder is None:
        reason = "BASCULE_CACHE_DIR is empty"
    if reason is None:
        try:
            text, places = numbered(module)
            machine = [target.name, sorted(target.machine.items())]
            return Slot(Directory(folder / GRAPHS), key_of(text, gm, pipeline, options, machine), places, target)
        except NotKeyed as why:
            reason = str(why)
    count("cache", f"bypass: {reason}")
    return None


def _bypass(options: Options, target: Target) -> str | None:
    if not options.cache:
        return "the option 'cache' is off"
    if options.dump is not None:
        return "a dump was asked for"
    if options.verify:
        return "verification was asked for"
    if torch.compiler.config.force_disable_caches:
        return "torch.compiler.config.force_disable_caches"
    if not target.cached:
        return f"the target '{target.name}'"
    return None
