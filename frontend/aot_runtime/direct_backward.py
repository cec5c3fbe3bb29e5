"""The backward of a training step that is called directly.

Gradients of outputs that a loss does not depend on (the logits beside the loss) are zeros that are made here. Whatever is unusual (a tangent of
other strides, a graph that is kept, a second derivative, `torch.func`) is handed to AOTAutograd's own backward.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from bascule.compat.graphs.dynamo import get_eval_frame_callback as tracing_callback
from bascule.compat.graphs.dynamo import innermost_fn
from bascule.compat.operators.autograd_state import deterministic_algorithms as deterministic_now
from bascule.compat.operators.autograd_state import has_thread_local, keeps_graph, thread_local
from bascule.compat.tensors.allocation import zero_tensor
from bascule.compat.tensors.functorch import peek_interpreter_stack

from ..fx.boxed import Boxed
from .plain_metadata import Call, unwrapped, without_autocast


@dataclass(frozen=True)
class Tangents:
    """The outputs of a training step whose gradients its backward takes, in its order."""

    places: tuple[int, ...]  # among the outputs
    formats: tuple[Any, ...]  # how each lies in memory, as AOTAutograd notes it
    outputs: int  # of the step

    @classmethod
    def of(cls, metadata: Any) -> "Tangents":
        places = tuple(
            i
            for i, info in enumerate(metadata.output_info)
            if issubclass(info.raw_type, torch.Tensor)
            and getattr(info, "requires_grad_for_backward", info.requires_grad)
        )
        formats = tuple(meta.memory_format for meta in metadata.subclass_tangent_meta[: len(places)])
        return cls(places, formats, len(metadata.output_info))

    @property
    def several(self) -> bool:
        """Whether some may be None: the forward then keeps sizes, dtypes and devices as `bascule_outputs`."""
        return len(self.places) > 1


def backward_of(base: Any, tangents: Tangents, amp: bool, boxed: bool) -> Call:
    """The backward of AOTAutograd's function `base`.

    `amp`: whether it was traced under autocast; `boxed`: whether gradients come as one list, to be emptied.
    """
    # Local names: this runs at each backward.
    places, several, outputs = tangents.places, tangents.several, tangents.outputs
    expected = tuple(zip(places, tangents.formats, strict=True))
    determined = base.metadata.deterministic
    compiled_graph = _unwrapped_at_last()

    def backward(ctx: Any, *given: Any) -> Any:
        grads = given[0] if boxed else list(given)
        graph = base.compiled_bw
        if several and len(grads) == outputs:
            bare = graph is not None and getattr(compiled_graph(graph), "takes_zeros", False)
            for (i, format_), (sizes, dtype, device) in zip(expected, ctx.bascule_outputs, strict=True):
                if grads[i] is None:  # the loss does not depend on it
                    grads[i] = _zeros(sizes, dtype, device, format_, bare)
            given = (grads,) if boxed else tuple(grads)
        if (
            graph is None
            or len(grads) != outputs
            or torch.is_grad_enabled()
            or keeps_graph()
            or peek_interpreter_stack() is not None
            or (determined is False and deterministic_now())
            or not all(type(grads[i]) is torch.Tensor and _lies_as(grads[i], format_) for i, format_ in expected)
        ):
            return base.backward(ctx, *given)
        args = [*ctx.symints, *ctx.saved_tensors, *ctx._tensors_no_vc_check, *[grads[i] for i in places]]
        grads.clear()
        del given
        ctx.maybe_clear_saved_tensors()
        # The context variables of the thread that called backward(), for Python operators.
        context = thread_local("context") if has_thread_local("context") else None
        if tracing_callback() is None:  # else it is wrapped so that Dynamo does not trace it
            graph = compiled_graph(graph)
        if amp:
            graph = without_autocast(graph)
        return tuple(graph(args) if context is None else context.copy().run(graph, args))

    return backward


def _unwrapped_at_last() -> Callable[[Any], Boxed]:
    """`unwrapped`, which looks again only where it is given another graph than at its last call."""
    wrapped: Any = None
    inner: Any = None

    def call(compiled: Any) -> Boxed:
        nonlocal wrapped, inner
        if compiled is not wrapped:
            inner, wrapped = unwrapped(innermost_fn(compiled)), compiled
        return inner

    return call


def _zeros(sizes: torch.Size, dtype: torch.dtype, device: torch.device, format_: Any, bare: bool) -> torch.Tensor:
    """A gradient of zeros, laid out as AOTAutograd takes it; row-major, it has no memory if that is `bare`."""
    if bare:
        x = zero_tensor(sizes, dtype=dtype, device=device)
        if _lies_as(x, format_):
            return x
    found = getattr(format_, "memory_format", None)
    if format_ is None or found is not None or not all(type(step) is int for step in format_.stride):
        x = torch.empty(sizes, dtype=dtype, device=device, memory_format=found or torch.contiguous_format)
    else:
        x = torch.empty_strided(sizes, format_.stride, dtype=dtype, device=device)
    return x.zero_()


def _lies_as(x: torch.Tensor, format_: Any) -> bool:
    """Whether AOTAutograd takes the tangent `x` as it is."""
    if format_ is None:
        return False
    if format_.memory_format is not None:
        return x.is_contiguous(memory_format=format_.memory_format)
    return x.shape == format_.size and x.stride() == format_.stride
