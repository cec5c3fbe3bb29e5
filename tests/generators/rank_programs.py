"""One process's share of a program of `collectives.py`: eager, compiled, and how they differ."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

TOLERANCE = 1e-9  # of the largest magnitude in a tensor


def run(
    rank: int, group: Any, text: str, rows: tuple[tuple[int, int], ...], differentiated: bool, backend: str
) -> tuple[list[str], int]:
    """Runs a program; returns the differences of `backend` from eager, and how many collectives it issues."""
    warnings.simplefilter("ignore")
    torch._dynamo.reset()
    names = _names(rank, group)
    exec(text, names)
    options = {"options": {"on_error": "raise"}} if backend == "bascule" else {}
    want, asked = _results(names["program"], group, rank, rows[rank], differentiated)
    function = torch.compile(names["program"], backend=backend, **options)
    got, issued = _results(function, group, rank, rows[rank], differentiated)
    found = [line for name in want for line in _difference(name, got[name], want[name])]
    if not differentiated and issued > asked:  # several may be one; a backward in eager may do what is equal once more
        found.append(f"{issued} collectives, not {asked}")
    return found, issued


def _results(
    function: Callable[..., Any], group: Any, rank: int, rows: tuple[int, int], differentiated: bool
) -> tuple[dict[str, Tensor], int]:
    generator = torch.Generator().manual_seed(100 * rank + 7)
    shapes = {"x": (rows[0], 4), "y": (rows[1], 4), "e": (4, 4)}
    made = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    given = {name: (x / max(1, len(x)) ** 0.5).requires_grad_(differentiated) for name, x in made.items()}
    before = group._get_sequence_number_for_group()
    results = [out * 1 for out in function(*given.values())]  # waits, where eager has not
    if differentiated:
        loss = sum((out * (number + 1)).sum() for number, out in enumerate(results))
        if loss.requires_grad:
            loss.backward()
    issued = group._get_sequence_number_for_group() - before
    found = {f"result {number}": out.detach() for number, out in enumerate(results)}
    gradients = {f"the gradient of {n}": x.grad for n, x in given.items() if x.grad is not None}
    return found | gradients, issued


def _difference(name: str, got: Tensor | None, want: Tensor) -> list[str]:
    if got is None or (got.dtype, got.shape) != (want.dtype, want.shape):
        return [f"{name}: {got if got is None else [*got.shape]}, not {[*want.shape]}"]
    allowed = TOLERANCE * want.abs().max().nan_to_num(1) if want.numel() else 0
    wrong = ~(((got - want).abs() <= allowed) | (got == want) | (got.isnan() & want.isnan()))
    if not wrong.any():
        return []
    place = tuple(wrong.nonzero()[0].tolist())
    return [
        f"{name}: {int(wrong.sum())} of {want.numel()} elements, at {place} {got[place].item()!r}, not {want[place].item()!r}"
    ]


def _names(rank: int, group: Any) -> dict[str, Any]:
    """The names that a program's text may use."""
    world = group.size()

    def in_place_reduced(a: Tensor) -> Tensor:
        new = a * 2
        dist.all_reduce(new, group=group)
        return new

    def in_place_gathered(a: Tensor) -> Tensor:
        new = a.new_empty(4 * world, 4)
        dist.all_gather_into_tensor(new, a.contiguous(), group=group)
        return new[-4:]

    def in_place_scattered(a: Tensor) -> Tensor:
        new = a.new_empty(4, 4)
        dist.reduce_scatter_tensor(new, a.repeat(world, 1), group=group)
        return new

    def in_place_exchanged(a: Tensor) -> Tensor:
        new = a.new_empty(4 * world, 4)
        dist.all_to_all_single(new, a.repeat(world, 1), group=group)
        return new[:4] * 3

    functions = {f.__name__: f for f in (in_place_reduced, in_place_gathered, in_place_scattered, in_place_exchanged)}
    mesh = DeviceMesh.from_group(group, "cpu")
    # Process i gives process j one row, and two if j is after i; it takes as many from i.
    given, taken = ([1 + (other > rank) for other in range(world)], [1 + (other < rank) for other in range(world)])
    return functions | {
        **{"torch": torch, "fc": fc, "group": group, "world": world, "mesh": mesh, "given": given, "taken": taken},
        **{"DTensor": DTensor, "Partial": Partial, "Replicate": Replicate, "Shard": Shard},
    }
