"""An operator writes into memory that it is given what it returns without, wherever the rest lies: intermediates of a graph are in one storage.

Whatever operators of the database call is tried that way, in all of its dtypes and in backwards. `make test-all` runs all of it.
"""

from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
import torch
from bascule.frontend.conversion.out_overloads import out_overload
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tests.operators.opinfo import DEVICE, operators, samples_of, tensor_leaves
from tests.parts import chosen

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="of the CPU's operators")

DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)
SAMPLES = 12
CALLS = 24  # of one operator
LIBRARIES = [
    name for name in operators() if name.startswith("linalg_")
]  # take memory as it comes, others mostly by an iterator
OTHERS = [name for name in operators() if name not in LIBRARIES]


class Storage:
    """Room for tensors beside each other in one storage, whose bytes are no zeros."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.bytes, self.end = torch.full((sum(map(room, tensors)),), 0x7B, dtype=torch.uint8), 0

    def place(self, like: torch.Tensor) -> torch.Tensor:
        place, self.end = self.bytes[self.end : self.end + room(like)], self.end + room(like)
        return place.view(like.dtype).as_strided(like.shape, like.stride())

    def copy(self, value: Any) -> Any:
        return self.place(value).copy_(value) if isinstance(value, torch.Tensor) else value


def room(tensor: torch.Tensor) -> int:
    """The bytes that a tensor takes, and what is needed for the next to be aligned."""
    elements = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else 1
    return -(-elements * tensor.itemsize // 64) * 64


class OutOverloads(TorchDispatchMode):
    """Calls the `out` form beside each operator that has one, and says what it does otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = {}
        self.differences: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        name = out_overload(str(func)) if isinstance(func, torch._ops.OpOverload) else None
        if name is None or not all(map(plain, [*tensor_leaves((args, kwargs)), *results])):
            return result
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.calls[name] <= CALLS and torch.Tag.nondeterministic_seeded not in func.tags:
            try:
                self.compare(name, args, kwargs, results)
            except (AssertionError, RuntimeError) as error:
                self.differences.append(f"{name} of {[*map(str, (args, kwargs))]}: {error}")
        return result

    def compare(self, name: str, args: tuple, kwargs: dict, results: list[torch.Tensor]) -> None:
        namespace, operator, overload = name.split(".")
        out = getattr(getattr(getattr(torch.ops, namespace), operator), overload)
        storage = Storage([*tensor_leaves((args, kwargs)), *results])
        args, kwargs = tree_map(storage.copy, (args, kwargs))
        given = [storage.place(each) for each in results]
        names = [argument.name for argument in out._schema.arguments if argument.is_out]
        out(*args, **kwargs, **dict(zip(names, given)))
        for one, other in zip(given, results):
            assert one.untyped_storage().data_ptr() == storage.bytes.untyped_storage().data_ptr(), "has moved"
            assert_close(one, other, equal_nan=True)


def plain(value: Any) -> bool:
    """Whether a value lies in memory as it is, each element at a place of its own."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_conj() or value.is_neg():
        return False
    lengths = sorted((stride, n) for n, stride in zip(value.shape, value.stride()) if n > 1)
    return all(stride >= n * inner for (inner, n), (stride, _) in zip([(1, 1), *lengths], lengths))


def run(entry: Any, dtype: torch.dtype) -> None:
    for sample in islice(samples_of(entry, dtype), SAMPLES):
        results = [x for x in tensor_leaves(sample.function(*sample.tensors)) if x.requires_grad]
        leaves = [x for x in sample.tensors if x.requires_grad]
        if results and leaves:
            torch.autograd.grad(results, leaves, [torch.ones_like(x) for x in results], allow_unused=True)


@pytest.mark.parametrize("name", LIBRARIES + chosen("OPERATORS", OTHERS, 20))
def test_it_writes_what_it_returns(name):
    """Samples that eager refuses are no samples."""
    watch, entry = OutOverloads(), operators()[name]
    for dtype in DTYPES:
        if dtype in entry.supported_dtypes(DEVICE):
            with watch, suppress(RuntimeError, NotImplementedError, AssertionError):
                run(entry, dtype)
    assert not watch.differences, watch.differences[0]


def test_a_difference_is_found():
    """The `out` form of a reduced loss has the sum in a tensor of as many elements as the input, and nowhere else."""
    watch, x = OutOverloads(), torch.rand(4)
    watch.compare(
        "aten.binary_cross_entropy.out",
        (x, x),
        {"reduction": 0},
        [torch.nn.functional.binary_cross_entropy(x, x, reduction="none")],
    )
    with pytest.raises(AssertionError):
        watch.compare("aten.binary_cross_entropy.out", (x, x), {}, [torch.nn.functional.binary_cross_entropy(x, x)])
