"""A program compiled ahead of time (`bascule.aot_compile`), loaded and called: no Dynamo, no compiler.

What guards do for `torch.compile` is checked here at each call: dtypes, devices, sizes and their ranges. An input with other strides than the
program was compiled for is copied, unless the program writes to it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .loading import load
from .object_code import ObjectCode, ObjectCodeError
from .packages import unpack
from .processor import instruction_sets
from .tensors import empty

Size = int | str  # a number, or a Python expression of the symbols


class Program:
    """A loaded program: called as the exported module is. `weights` are its parameters, buffers and constants by name: change them in place,
    or give new ones to `load_weights`. Buffers that the program writes keep their contents from call to call."""

    def __init__(self, description: Mapping[str, Any], blobs: Mapping[str, bytes]):
        lacking = set(description["processor"]) - instruction_sets()
        if lacking:
            raise ObjectCodeError(f"compiled for another processor, with {', '.join(sorted(lacking)[:8])}")
        self._inputs: list[dict[str, Any]] = description["inputs"]
        self._outputs: list[dict[str, Any]] = description["outputs"]
        self._ranges: dict[str, Sequence[int]] = description["ranges"]
        self._in_spec = pytree.treespec_loads(description["in_spec"])
        self._out_spec = pytree.treespec_loads(description["out_spec"])
        self.weights = {name: _tensor(told, blobs[f"weights/{name}"]) for name, told in description["weights"].items()}
        constants = [self.weights[name] for name in description["constants"]]
        self._call = load(blobs["wrapper"].decode(), ObjectCode.load(blobs["object"]), constants)

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Copies `weights` over those of the same names. Raises `KeyError` for a name that is not there."""
        with torch.no_grad():
            for name, value in weights.items():
                self.weights[name].copy_(value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises `ValueError` for arguments that the program was not compiled for."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise ValueError(f"the arguments have the structure {spec}, the program takes {self._in_spec}")
        with torch.no_grad():
            given = self._checked(leaves)
            outputs = self._call(
                [self.weights[i["weight"]] if "weight" in i else given[i["user"]] for i in self._inputs]
            )
            results = []
            for told, output in zip(self._outputs, outputs):
                if "weight" in told:
                    self.weights[told["weight"]].copy_(output)
                elif "written" in told:
                    given[told["written"]].copy_(output)
                else:
                    results.append(output)
        return pytree.tree_unflatten(results, self._out_spec)

    def _checked(self, leaves: list[Any]) -> dict[int, Any]:
        """The user's inputs by number."""
        symbols: dict[str, int] = {}
        told = [i for i in self._inputs if "user" in i]
        for one in told:
            value = leaves[one["user"]]
            if "dtype" not in one:
                continue
            if not isinstance(value, torch.Tensor) or str(value.dtype) != one["dtype"] or value.device.type != "cpu":
                found = f"{value.dtype} on {value.device}" if isinstance(value, torch.Tensor) else type(value).__name__
                raise ValueError(f"input {one['user']} is {found}, the program takes {one['dtype']} on cpu")
            if value.dim() != len(one["sizes"]):
                raise ValueError(
                    f"input {one['user']} has {value.dim()} dimensions, the program takes {len(one['sizes'])}"
                )
            for size, wanted in zip(value.shape, one["sizes"]):
                if isinstance(wanted, str) and wanted.isidentifier():
                    symbols.setdefault(wanted, size)
        for name, size in symbols.items():
            low, high = self._ranges.get(name, (0, 2**62))
            if not low <= size <= high:
                raise ValueError(f"the size {name} is {size}, the program takes {low} to {high}")
        return {one["user"]: self._input(one, leaves[one["user"]], symbols) for one in told}

    def _input(self, told: Mapping[str, Any], value: Any, symbols: dict[str, int]) -> Any:
        number = told["user"]
        if "dtype" not in told:
            if value != told["value"]:
                raise ValueError(f"input {number} is {value!r}, the program was compiled for {told['value']!r}")
            return value
        sizes, strides = ([_number(n, symbols) for n in told[what]] for what in ("sizes", "strides"))
        if list(value.shape) != sizes:
            raise ValueError(f"input {number} has sizes {list(value.shape)}, the program takes {told['sizes']}")
        same = all(a == b for n, a, b in zip(sizes, value.stride(), strides) if n > 1) or 0 in sizes
        return value if same else empty(tuple(sizes), tuple(strides), value.dtype).copy_(value)


def _number(size: Size, symbols: dict[str, int]) -> int:
    return size if isinstance(size, int) else eval(size, {"__builtins__": {}, "Max": max, "Min": min}, symbols)


def _tensor(told: Mapping[str, Any], content: bytes) -> torch.Tensor:
    dtype = getattr(torch, told["dtype"].removeprefix("torch."))
    if not content:
        return torch.empty(told["sizes"], dtype=dtype)
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(dtype)
    return flat.as_strided(told["sizes"], told["strides"])


def aot_load(path: str | os.PathLike) -> Program:
    """The program that `bascule.aot_compile` wrote to `path`. Raises `PackageError` for any other file, and `ObjectCodeError` on a machine whose
    processor lacks what it was compiled for. A package is code: load only what you trust."""
    return Program(*unpack(Path(path).read_bytes()))
