"""PyTorch's operator database, as a list of cases.

The private module of PyTorch that holds it is named here and nowhere else. Checked on torch 2.11 to 2.14.
`BASCULE_TEST_DEVICE=cuda` puts the inputs on another device.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16)
SAMPLES = 3
SPREAD = 16
DEVICE = os.environ.get("BASCULE_TEST_DEVICE", "cpu")


@dataclass(frozen=True)
class Case:
    """An operator of the database (by its name and variant) on inputs of one dtype."""

    operator: str
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{self.operator}-{str(self.dtype).removeprefix('torch.')}"


@dataclass(frozen=True)
class Sample:
    """One call of an operator: `function(*tensors)`, with the numbers and options of the sample inside; `fill` gives all of its arguments."""

    function: Callable[..., Any]
    tensors: list[torch.Tensor]
    operator: Any
    fill: Callable[..., tuple[Any, tuple[Any, ...], dict[str, Any]]]

    def copies(self, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
        """The inputs anew, the same strides; floating-point ones in `dtype` if it is given."""
        return [duplicate(tensor, dtype) for tensor in self.tensors]


@cache
def operators() -> dict[str, Any]:
    """Name and variant -> entry of the database. A name that occurs again gets a number."""
    found: dict[str, Any] = {}
    for entry in op_db:
        name, number = entry.formatted_name, 2
        while name in found:
            name, number = f"{entry.formatted_name}_{number}", number + 1
        found[name] = entry
    return found


def cases(names: Sequence[str] | None = None) -> list[Case]:
    """Every operator with every dtype of `DTYPES` that it supports."""
    return [
        Case(name, dtype)
        for name, entry in operators().items()
        if names is None or name in names
        for dtype in DTYPES
        if dtype in entry.supported_dtypes(DEVICE)
    ]


def samples(case: Case, count: int = SAMPLES) -> list[Sample]:
    """Samples of a case, always the same ones: the first, and others at equal distances among the first `SPREAD`."""
    found = list(islice(samples_of(operators()[case.operator], case.dtype), max(SPREAD, count)))
    return [found[number * len(found) // count] for number in range(count)] if len(found) > count else found


def samples_of(entry: Any, dtype: torch.dtype) -> Iterator[Sample]:
    """The samples of an entry of the database, always the same ones."""
    differentiable = (
        dtype.is_floating_point and entry.supports_autograd and dtype in entry.supported_backward_dtypes(DEVICE)
    )
    torch.manual_seed(0)
    for sample in entry.sample_inputs(DEVICE, dtype, requires_grad=differentiable):
        leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        process = sample.output_process_fn_grad  # to what is unique, of eigenvectors for example

        def fill(*tensors, leaves=leaves, structure=structure, places=places):
            filled = list(leaves)
            for place, tensor in zip(places, tensors):
                filled[place] = tensor
            return tree_unflatten(filled, structure)

        def function(*tensors, fill=fill, process=process):
            first, args, kwargs = fill(*tensors)
            return process(entry.op(first, *args, **kwargs))

        yield Sample(function, [leaves[i] for i in places], entry.op, fill)


def emptied(sample: Sample) -> Iterator[Sample]:
    """The sample with inputs that have no elements: each dimension of the first tensor in turn, and what is as long in the others, is of size 0;
    then the same dimension of all tensors of as many dimensions, wherever that is something else."""
    if not sample.tensors or any(t.layout != torch.strided for t in sample.tensors):
        return
    first, seen = sample.tensors[0], set()
    for dim, size in enumerate(first.shape):
        as_long = [[0 if n == size else n for n in t.shape] for t in sample.tensors]
        same_dim = [
            [0 if i == dim and t.ndim == first.ndim else n for i, n in enumerate(t.shape)] for t in sample.tensors
        ]
        alone = [list(t.shape) for t in sample.tensors]
        alone[0][dim] = 0
        for shapes in (as_long, same_dim, alone):
            key = str(shapes)
            if key not in seen:
                seen.add(key)
                tensors = [
                    _resized(t, shape) if list(t.shape) != shape else t for t, shape in zip(sample.tensors, shapes)
                ]
                yield replace(sample, tensors=tensors)


def _resized(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The first elements of `tensor` in each dimension; none of its sizes is less than in `shape`."""
    part = tensor.detach()[tuple(slice(n) for n in shape)]
    return part.contiguous().clone().requires_grad_(tensor.requires_grad)


def duplicate(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A copy with the same strides in a storage of its own, floating-point numbers in `dtype` if it is given."""
    if tensor.layout != torch.strided:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    convert = dtype is not None and tensor.is_floating_point()
    with torch.no_grad():  # the whole storage: as_strided may look outside of the tensor
        whole = (
            torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            .set_(tensor.untyped_storage())
            .to(dtype if convert else tensor.dtype, copy=True)
        )
        new = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return new.detach().requires_grad_(tensor.requires_grad)


def tensor_leaves(value: Any) -> list[torch.Tensor]:
    """The tensors in an operator's result, in order."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]
