"""Calls of compiled graphs past AOTAutograd's runtime wrappers, where these have nothing to do.

The wrappers replay views, write back mutations, unwrap subclasses, thread random states and tokens, and look at each call whether they have
to: about 5 us for an inference graph, 40 us for a forward and its backward. A graph whose metadata says that none of this happens is
called as it is from its second call on. The first goes through AOTAutograd, which compiles a backward at its first use, and shows whether
inputs arrive as they were given.

Inference graphs are in `direct_inference.py`, training steps in `direct_training.py`. The wrappers of torch 2.11 to 2.14 were read; with others
all calls go through them, unless the option `direct_calls` says otherwise.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from bascule.compat.tensors.fake_tensors import is_fake

from ..fx.boxed import Boxed
from .plain_metadata import PLAIN, Call
from .saved_tensor_hooks import hooks_now, hooks_to_mind

DEVICES = ("cpu", "cuda")
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


def called_directly(compiled: Call, made: Made, operators: Call | None, enabled: bool) -> Call:
    """`compiled`, which AOTAutograd made, or from its second call on what does the same with less, where that is known to be so.

    `operators` computes the same one by one: it is called where the inputs are fake tensors, as a program has them that runs under a
    `FakeTensorMode` of its own. Dynamo guards the classes of inputs, so that the first call tells whether they are. To be called where
    `compiled` was made: what holds there (autocast) Dynamo guards too, but not hooks on saved tensors. Not `enabled`: every call goes through
    AOTAutograd's wrappers.
    """
    hooks = hooks_now(True) is not None
    amp = any(map(torch.is_autocast_enabled, DEVICES))
    direct: Call | None = None
    tries = TRIES if enabled and not hooks else 0

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
            direct = _shortened(made, compiled, args, outputs, amp)
        return outputs

    return call


def _refuse_duals(args: Sequence[Any]) -> None:
    """Raises for tensors with tangents of forward-mode differentiation, which kernels would drop."""
    if any(isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in args):
        raise RuntimeError(
            "forward-mode differentiation does not go through a compiled function: compile the function that calls torch.func.jvp"
        )


def _shortened(made: Made, compiled: Call, args: tuple[Any, ...], outputs: Sequence[Any], amp: bool) -> Call | None:
    """A function that does the same as `compiled`, traced under autocast or not (`amp`), with less; None where AOTAutograd has to.

    Imports what leans on PyTorch's internals.
    """
    from .direct_inference import inference
    from .direct_training import training

    if made.inference is not None:
        return inference(made.metadata, made.inference, args, amp)
    return training(compiled, args, outputs, amp)
