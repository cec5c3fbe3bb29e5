"""A program compiled ahead of time (`bascule.aot_compile`), loaded and called: no Dynamo, no compiler.

What guards do for `torch.compile` is checked here at each call: dtypes, devices, sizes and their ranges. An input with other strides than the
program was compiled for is copied.
"""

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NoReturn

import torch

from bascule.compat.operators.autograd_state import DisableAutocast
from bascule.compat.tensors.pytree import tree_flatten, tree_unflatten, treespec_loads

from ..memory.extents import overlap, overlaps_itself
from ..memory.tensor_serialization import tensor_of
from .container import PackageError, unpack
from .graph_loader import PackageReader, check_machine
from .size_expressions import parsed, symbol_of, value_of

FORMAT = 6  # of what a package tells of a program


class Program:
    """A loaded program: called as the exported module is.

    `weights` are its parameters and buffers by name: change them in place, or give new ones to `load_weights` and `bind_weights`. Buffers
    that the program writes keep their contents from call to call.
    """

    def __init__(
        self,
        description: Mapping[str, Any],
        blobs: Mapping[str, bytes],
        weights: Mapping[str, torch.Tensor] | None = None,
    ):
        check_machine(description["processor"], description["capabilities"])
        lacking = [name for name in description["operators"] if not _is_registered(name)]
        if lacking:
            raise PackageError(f"calls {', '.join(lacking)}, which is not registered: import what defines it first")
        self._inputs: list[dict[str, Any]] = description["inputs"]
        self._outputs: list[dict[str, Any]] = description["outputs"]
        self._symbols: dict[str, Sequence[Any]] = description["symbols"]
        self._ranges: dict[str, Sequence[int]] = description["ranges"]
        self._guards: list[str] = description["guards"]
        for guard in self._guards:
            _check_arithmetic(guard)
        self._in_spec = treespec_loads(description["in_spec"])
        self._out_spec = treespec_loads(description["out_spec"])
        self._layouts: dict[str, dict[str, Any]] = description["weights"]
        self._unused, self._frozen = set(description["unused"]), set(description["frozen"])
        held = {name: f"weights/{name}" for name in self._layouts if f"weights/{name}" in blobs}
        self.weights = {name: tensor_of(self._layouts[name], blobs[blob]) for name, blob in held.items()}
        self.bind_weights(weights or {})
        missing = [name for name in self._layouts if name not in self.weights]
        if missing:
            told = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            raise KeyError(f"the package holds no values of {told}: aot_load(path, weights=module.state_dict())")
        self._call = PackageReader(blobs).graph(description["graph"], "program")

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Copies `weights` over those of the same names, in place. Raises `KeyError` for a name that is not there."""
        known = self._known(weights)
        with torch.no_grad():
            for name, value in known.items():
                self.weights[name].copy_(value)

    def bind_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Takes `weights` for those of the same names from now on.

        Without a copy where device and strides are those of the program: what changes them changes the program, and buffers that the program
        writes are written there. Raises `KeyError` for a name that is not there, and `ValueError` for another dtype or other sizes.
        """
        known = self._known(weights)
        for name, value in known.items():
            told = self._layouts[name]
            if [str(value.dtype), list(value.shape)] != [told["dtype"], told["sizes"]]:
                wanted = f"{told['dtype']} of sizes {told['sizes']}"
                raise ValueError(f"'{name}' is {value.dtype} of sizes {list(value.shape)}, the program takes {wanted}")
        self.weights |= {name: _placed(name, value.detach(), self._layouts[name]) for name, value in known.items()}

    def _known(self, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Without those of the exported module that the program does not need."""
        if not isinstance(weights, Mapping) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
            raise TypeError("weights are a dictionary of tensors by name")
        for name in weights:
            if name in self._frozen:
                raise KeyError(
                    f"'{name}' was made a constant of the program when it was compiled, by the option 'freezing'"
                )
            if name not in self._layouts and name not in self._unused:
                raise KeyError(f"the program has no weight '{name}'")
        return {name: value for name, value in weights.items() if name in self._layouts}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Program":
        """The same code, with weights of its own."""
        copy = object.__new__(Program)
        copy.__dict__ |= self.__dict__
        copy.weights = deepcopy(self.weights, memo)
        return copy

    def __reduce__(self) -> NoReturn:
        raise TypeError("a program is not pickled: each process loads its package by bascule.aot_load(path)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises `ValueError` for arguments that the program was not compiled for."""
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise ValueError(
                f"the arguments have the structure {_call_of(spec)}, the program takes {_call_of(self._in_spec)}"
            )
        # Casts are in the program: what its operators return, its kernels read.
        with torch.no_grad(), DisableAutocast():
            given, symbols = self._checked(leaves)
            outputs = self._call(
                [self.weights[i["weight"]] if "weight" in i else given[i["user"]] for i in self._inputs]
            )
            results = []
            for told, output in zip(self._outputs, outputs):
                if "weight" in told:
                    self.weights[told["weight"]].copy_(output)
                elif "written" in told:
                    leaves[told["written"]].copy_(output)
                else:
                    results.append(self._lying(told["lies"], output, leaves, given, symbols))
        return tree_unflatten(results, self._out_spec)

    def _lying(
        self, told: Mapping[str, Any], result: Any, leaves: list[Any], given: dict[int, Any], symbols: dict[str, int]
    ) -> Any:
        """`result` as a view of the input or weight in which it has to lie; as it is where that input was copied."""
        if not told or ("user" in told and given[told["user"]] is not leaves[told["user"]]):
            return result
        base = leaves[told["user"]] if "user" in told else self.weights[told["weight"]]
        if result.untyped_storage().data_ptr() == base.untyped_storage().data_ptr():
            return result
        sizes, strides = ([value_of(n, symbols) for n in told[what]] for what in ("sizes", "strides"))
        start, rest = divmod(base.storage_offset() * base.itemsize + value_of(told["offset"], symbols), result.itemsize)
        if base.dtype == result.dtype:
            return base.as_strided(sizes, strides, start)
        if rest:
            return result
        return result.new_empty(0).set_(base.untyped_storage(), start, sizes, strides)

    def _checked(self, leaves: list[Any]) -> tuple[dict[int, Any], dict[str, int]]:
        """The user's inputs by number, and what the symbols stand for."""
        told = [i for i in self._inputs if "user" in i]
        for one in told:
            value = leaves[one["user"]]
            if "number" in one and type(value) is not int:
                raise ValueError(f"input {one['user']} is {type(value).__name__}, the program takes int")
            if "dtype" not in one:
                continue
            found = _kind_of(value)
            if found != f"{one['dtype']} on {one['device']}":
                raise ValueError(f"input {one['user']} is {found}, the program takes {one['dtype']} on {one['device']}")
            if value.dim() != len(one["sizes"]):
                raise ValueError(
                    f"input {one['user']} has {value.dim()} dimensions, the program takes {len(one['sizes'])}"
                )
        symbols = {
            name: symbol_of(_found(leaves[number], kind, dim), scale, offset)
            for name, (number, kind, dim, scale, offset) in self._symbols.items()
        }
        for name, (low, high) in self._ranges.items():
            if not low <= symbols[name] <= high:
                hint = " (export it with Dim(name, min=..) for smaller ones)" if symbols[name] < low <= 2 else ""
                raise ValueError(f"{self._place(name)} is {symbols[name]}, the program takes {low} to {high}{hint}")
        for guard in self._guards:
            if not value_of(guard, symbols):
                used = [name for name in symbols if re.search(rf"\b{name}\b", guard)]
                told_of = ", ".join(f"{name} = {symbols[name]}, {self._place(name)}" for name in used)
                raise ValueError(f"the program was exported for sizes of which {guard} holds, and {told_of}")
        self._check_memory(leaves)
        return {one["user"]: self._input(one, leaves[one["user"]], symbols) for one in told}, symbols

    def _place(self, symbol: str) -> str:
        """The part of an input that tells a symbol."""
        number, kind, dim, scale, offset = self._symbols[symbol]
        found = f"input {number}" if kind == "value" else f"the {kind} of input {number} in dimension {dim}"
        return found if (scale, offset) == (1, 0) else f"({found} - {offset}) / {scale}"

    def _check_memory(self, leaves: Sequence[Any]) -> None:
        """Raises `ValueError` where an input that is written shares memory with another one, or with itself: no program knows of that."""
        for written in (told["written"] for told in self._outputs if "written" in told):
            if overlaps_itself(leaves[written].shape, leaves[written].stride()):
                raise ValueError(
                    f"input {written}, which the program writes, has elements that share memory, strides {list(leaves[written].stride())}: "
                    "give it a copy"
                )
            for number, other in enumerate(leaves):
                if number != written and isinstance(other, torch.Tensor) and overlap(leaves[written], other):
                    raise ValueError(
                        f"input {written}, which the program writes, shares memory with input {number}: give it a copy"
                    )

    def _input(self, told: Mapping[str, Any], value: Any, symbols: dict[str, int]) -> Any:
        number = told["user"]
        if "number" in told:
            if value != value_of(told["number"], symbols):
                raise ValueError(f"input {number} is {value}, the program takes {told['number']}, {symbols}")
            return value
        if "dtype" not in told:
            if not _is_same(value, told["value"]):
                raise ValueError(f"input {number} is {value!r}, the program was compiled for {told['value']!r}")
            return value
        sizes, strides = ([value_of(n, symbols) for n in told[what]] for what in ("sizes", "strides"))
        if list(value.shape) != sizes:
            raise ValueError(f"input {number} has sizes {list(value.shape)}, the program takes {told['sizes']}")
        if "begins" in told and value.storage_offset() != told["begins"]:
            raise ValueError(
                f"input {number} begins at element {value.storage_offset()} of its storage, and in the export at {told['begins']}, from which "
                "the program's as_strided counts: give it a clone in both, or no storage offset to as_strided"
            )
        same = all(a == b for n, a, b in zip(sizes, value.stride(), strides) if n > 1) or 0 in sizes
        if same and not value.is_neg() and not value.is_conj():  # else other numbers are in memory
            return value
        if not same and overlaps_itself(sizes, strides):
            raise ValueError(
                f"input {number} has the strides {list(value.stride())}, and the program was compiled for one whose elements share memory, "
                f"strides {strides}: export it with an input that lies in memory as those to come"
            )
        return torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device).copy_(value)


def _found(value: Any, kind: str, dim: int) -> int:
    """The number that tells a symbol: one of the user's, or a size or stride of a tensor."""
    if kind == "value":
        return value
    return value.shape[dim] if kind == "size" else value.stride(dim)


def _kind_of(value: Any) -> str:
    """The kind of an argument; of a tensor `torch.float32 on cpu`."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype} on {value.device}" + ("" if value.layout is torch.strided else f" ({value.layout})")


def _is_same(value: Any, constant: Any) -> bool:
    """Whether `value` computes as the `constant` of a program does: 2.0 makes floats of integers, -0.0 has another sign than 0.0, NaN is NaN."""
    return type(value) is type(constant) and repr(value) == repr(constant)


class _Leaf:
    """Stands for a tensor or a number in a text."""

    def __repr__(self) -> str:
        return "_"


def _call_of(spec: Any) -> str:
    """Arguments as they are nested, `(_, [_, _], scale=_)`."""
    args, kwargs = tree_unflatten([_Leaf()] * spec.num_leaves, spec)
    return f"({', '.join([*map(repr, args), *(f'{name}={value!r}' for name, value in kwargs.items())])})"


def _is_registered(operator: str) -> bool:
    """Whether this process has an operator, `namespace::name.overload`."""
    namespace, name = operator.split("::")
    packet, overload = name.split(".")
    return hasattr(getattr(getattr(torch.ops, namespace), packet, None), overload)


def _check_arithmetic(guard: str) -> None:
    """Raises `PackageError` for text that is more than a condition on numbers."""
    try:
        parsed(guard)
    except ValueError as reason:
        raise PackageError(f"a condition that is none: {reason}") from reason


def _placed(name: str, value: torch.Tensor, told: Mapping[str, Any]) -> torch.Tensor:
    """`value`, or a copy of it, on the device and with the strides that the program was compiled for."""
    if str(value.device) == told["device"] and list(value.stride()) == told["strides"]:
        return value
    memory = torch.empty_strided(told["sizes"], told["strides"], dtype=value.dtype, device=told["device"])
    if overlaps_itself(told["sizes"], told["strides"]):
        raise ValueError(
            f"'{name}' has the strides {list(value.stride())}, the program takes it with {told['strides']}: its elements share memory"
        )
    return memory.copy_(value)


def aot_load(path: str | os.PathLike, *, weights: Mapping[str, torch.Tensor] | None = None) -> Program:
    """The program that `bascule.aot_compile` wrote to `path`.

    `weights`: values for parameters and buffers, as `Program.bind_weights` takes them; a package with weights by reference needs all of them.
    Raises `PackageError` for any other file, `ObjectCodeError` on a machine whose processor or GPU lacks what it was compiled for, `KeyError`
    for weights that are missing, `TypeError` for what is no dictionary of tensors. A package is code: load only what you trust.
    """
    try:
        description, blobs = unpack(Path(os.path.expanduser(path)).read_bytes())
        if description.get("format") != FORMAT:
            raise PackageError("not a program, or one that another version of Bascule compiled")
        return Program(description, blobs, weights)
    except PackageError as error:
        raise PackageError(f"{path}: {error}") from None
