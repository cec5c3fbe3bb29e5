"""Calls of compiled graphs past AOTAutograd's runtime wrappers, where these have nothing to do.

The wrappers replay views, write back mutations, unwrap subclasses, thread random states and tokens, and look at each call whether they have
to: about 5 us for an inference graph, 40 us for a forward and its backward. A graph whose metadata says that none of this happens is
called as it is from its second call on. The first goes through AOTAutograd, which compiles a backward at its first use, and shows whether
inputs arrive as they were given.

An inference graph is called here, a training step in `direct_training.py`. The private modules of PyTorch that this needs are named in these
files alone. Run on torch 2.11 to 2.14, whose sources were read; with others all calls go through the wrappers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from bascule.compat.operators.autograd_state import any_autocast, set_grad_enabled
from bascule.compat.tensors.fake_tensors import is_fake

from ..fx.boxed import Boxed
from ..torch_patches.versions import is_checked
from .direct_training import training
from .plain_metadata import Call, is_plain, unwrapped, without_autocast
from .saved_tensor_hooks import hooks_now, hooks_to_mind

VERSIONS = ((2, 11), (2, 14))  # of PyTorch: the first and the last whose wrappers were read
PLAIN = (torch.Tensor, torch.nn.Parameter)
NUMBERS = (int, float, bool, type(None))
TRIES = 3  # calls, of fake tensors for example, that may show nothing


@dataclass
class Made:
    """The result of one trace: the metadata of its wrappers, and the compiled graph if it is an inference graph."""

    metadata: Any = None
    inference: Boxed | None = None


_made: ContextVar[Made | None] = ContextVar("made", default=None)


@contextmanager
def making() -> Iterator[Made]:
    """While a graph is traced, or what it came to is restored; `made` is told of it."""
    made = Made()
    token = _made.set(made)
    try:
        yield made
    finally:
        _made.reset(token)


def made(metadata: Any, inference: Boxed | None) -> None:
    """Notes what the trace at hand came to, if anybody asked."""
    found = _made.get()
    if found is not None:
        found.metadata, found.inference = metadata, inference


def available() -> bool:
    """Whether this version of PyTorch is one whose wrappers were read."""
    return is_checked(VERSIONS)


def called_directly(compiled: Call, made: Made, operators: Call | None) -> Call:
    """`compiled`, which AOTAutograd made, or from its second call on what does the same with less, where that is known to be so.

    `operators` computes the same one by one: it is called where the inputs are fake tensors, as a program has them that runs under a
    `FakeTensorMode` of its own. Dynamo guards the classes of inputs, so that the first call tells whether they are. To be called where
    `compiled` was made: what holds there (autocast) Dynamo guards too, but not hooks on saved tensors.
    """
    hooks = hooks_now(True) is not None
    amp = any_autocast()
    direct: Call | None = None
    tries = 0 if not available() or hooks else TRIES

    def call(*args: Any) -> Any:
        nonlocal direct, tries, operators
        if hooks_now(True) is not None:
            minded = hooks_to_mind()
            if minded is not None:
                with minded:
                    return call(*args)
        if forward_ad._current_level >= 0:
            _refuse_duals(args)
        if direct is not None:
            return direct(*args)
        if operators is not None:
            if any(is_fake(x) for x in args):
                return operators(*args)
            operators = None
        if tries == 0:
            return compiled(*args)
        tries -= 1
        outputs = compiled(*args)
        if all(type(x) in PLAIN or type(x) in NUMBERS for x in (*args, *outputs)):
            inference = made.inference is not None
            direct = _inference(made, args, amp) if inference else training(compiled, args, outputs, amp)
        return outputs

    return call


def _refuse_duals(args: Sequence[Any]) -> None:
    """Raises for tensors with tangents of forward-mode differentiation, which kernels would drop."""
    if any(isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in args):
        raise RuntimeError(
            "forward-mode differentiation does not go through a compiled function: compile the function that calls torch.func.jvp"
        )


def _inference(made: Made, args: Sequence[Any], amp: bool) -> Call | None:
    """`amp`: whether it was traced under autocast."""
    metadata = made.metadata
    if metadata is None or not is_plain(metadata, args):
        return None
    graph = without_autocast(unwrapped(made.inference)) if amp else unwrapped(made.inference)
    written = tuple(metadata.mutated_graph_handled_indices_seen_by_autograd)
    if metadata.mutated_graph_handled_indices and not all(type(x) in PLAIN for x in args):
        return None  # inputs that share memory may have become one, and sizes
    grad_enabled = torch.is_grad_enabled

    def direct(*args: Any) -> Any:
        if written:
            torch.autograd.graph.increment_version([args[i] for i in written])
        if not grad_enabled():
            return list(graph(list(args)))
        set_grad_enabled(False)
        try:
            return list(graph(list(args)))
        finally:
            set_grad_enabled(True)

    return direct
