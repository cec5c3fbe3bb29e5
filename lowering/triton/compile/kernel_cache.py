"""Compiled kernels as a store keeps them: a line of JSON, the cubin. The store is handed in: this layer knows of no files."""

import json
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from .tensor_maps import TensorMap

FORMAT = 4  # of entries and of what a key covers
PLACE = re.compile(r'"(?:[^"\\]|\\.)*":\d+:\d+(?: to \d*:\d+)?')  # a location's file, line and column


@dataclass(frozen=True)
class MachineCode:
    """A compiled kernel.

    `entry` is its name in the cubin, `warps` and `shared` are what a launch gives a program (`shared`: dynamic shared memory, bytes),
    `location` is the user's line, `early` whether it may be started while what runs before it ends: see `values/dependent_launch.py`; `maps`
    are the tensor maps among its parameters: see `tensor_maps.py`.
    """

    cubin: bytes = field(repr=False)
    entry: str
    warps: int
    shared: int
    location: str
    early: bool = False
    maps: list[TensorMap] = field(default_factory=list)


def key_of(ttir: str, **conditions: Any) -> str:
    """The key of what Triton makes of `ttir` under `conditions`: versions, architecture, options; whatever prints as JSON.

    It does not cover the lines of the user's source: one more line at the top of a file is no reason to compile all of it again. They are
    in the cubin for profilers, as they were when it was made.
    """
    text = json.dumps({"format": FORMAT, **conditions}, sort_keys=True)
    return sha256(f"{text}\n{PLACE.sub('', ttir)}".encode()).hexdigest()


class Store(Protocol):
    """Bytes by key, whole and as they were given. What it cannot keep, or has lost, is not there."""

    def find(self, keys: Collection[str]) -> dict[str, bytes]: ...

    def put(self, key: str, content: bytes) -> None: ...


@dataclass(frozen=True)
class KernelCache:
    """Compiled kernels by key. Without a store it keeps nothing."""

    store: Store | None

    def find(self, keys: Collection[str]) -> dict[str, MachineCode]:
        """The kernels of those `keys` that it has: all are asked for at once, for they may come from another machine."""
        found = {} if self.store is None or not keys else self.store.find(keys)
        codes = {key: _code(content) for key, content in found.items()}
        return {key: code for key, code in codes.items() if code is not None}

    def put(self, key: str, code: MachineCode) -> None:
        """Keeps `code`, if the store takes it."""
        if self.store is not None:
            values = {name: value for name, value in asdict(code).items() if name != "cubin"}
            self.store.put(key, json.dumps(values).encode() + b"\n" + code.cubin)


def _code(content: bytes) -> MachineCode | None:
    header, _, cubin = content.partition(b"\n")
    try:
        return MachineCode(cubin, **json.loads(header))
    except (ValueError, TypeError):  # not of this format
        return None
