"""Hooks on saved tensors: what `unpack` gives has the strides of what was saved, which is how a compiled backward reads it.

A hook owes autograd the values alone: one that keeps tensors elsewhere (`save_on_cpu(pin_memory=True)`), smaller or in a file may give them back
row-major, or as views of something else. Dynamo does not guard hooks, unless both are graphs, and then AOTAutograd makes them a part of the
compiled graphs; so they are looked for at each call of a forward.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from bascule.compat.graphs.dynamo import dont_skip_tracing
from bascule.compat.operators.saved_tensor_hooks import top_hooks as hooks_now

Strides = tuple[int, ...]


@dataclass(frozen=True)
class Pack:
    """The user's hook; beside what it makes of a tensor, its strides are kept."""

    hook: Callable[[torch.Tensor], Any]

    def __call__(self, x: torch.Tensor) -> tuple[Any, Strides]:
        return self.hook(x), x.stride()


def unpacking(hook: Callable[[Any], torch.Tensor]) -> Callable[[tuple[Any, Strides]], torch.Tensor]:
    """A hook that gives what the user's `hook` gives of what `Pack` kept, with the strides beside it. A function: torch 2.11 traces no other
    callable that has one."""

    @dont_skip_tracing
    def unpack(kept: tuple[Any, Strides]) -> torch.Tensor:
        what, strides = kept
        x = hook(what)
        if (
            torch.compiler.is_compiling()
        ):  # by compiled autograd, and the backward after it with the strides that there are
            return x
        return x if type(x) is not torch.Tensor or _lies_so(x, strides) else laid_out(x, strides)

    return unpack


def hooks_to_mind() -> saved_tensors_hooks | None:
    """A context in which the hooks on saved tensors that are at work now keep strides; None if there are none, or if they do so already."""
    hooks = hooks_now(True)
    if hooks is None or type(hooks[0]) is Pack or isinstance(hooks[0], torch.fx.GraphModule):
        return None
    return saved_tensors_hooks(Pack(hooks[0]), unpacking(hooks[1]))


def _lies_so(x: torch.Tensor, strides: Strides) -> bool:
    if x.is_neg() or x.is_conj():
        return False
    return x.numel() == 0 or all(a == b for n, a, b in zip(x.shape, x.stride(), strides) if n > 1)


def laid_out(x: torch.Tensor, strides: Strides) -> torch.Tensor:
    """A copy of `x` whose memory holds its elements. Where several share a place, they are taken to be equal, as they were."""
    if len(strides) != x.dim():
        raise RuntimeError(f"a hook on saved tensors gave back {x.dim()} dimensions for {len(strides)}")
    places = torch.zeros((), dtype=torch.int64, device=x.device)
    for size, stride in zip(x.shape, strides):
        places = places[..., None] + torch.arange(size, device=x.device) * stride
    made = torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)
    made.as_strided((made.untyped_storage().nbytes() // x.element_size(),), (1,))[places] = x
    return made
