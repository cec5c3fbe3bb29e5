"""Training steps that are called directly: AOTAutograd's `autograd.Function` with a shorter forward and backward.

Its own stays the base class: what it saves, and all that compiled autograd asks it for, is the same, and what is unusual in a backward is handed
to it.
"""

from collections.abc import Sequence
from typing import Any

import torch

from bascule.compat.tensors.functorch import transforms_at_work as in_functorch

from .direct_backward import Tangents, backward_of
from .plain_metadata import Call, is_plain, unwrapped, without_autocast, written_by

STATE = {"symints", "opaque_objects", "_tensors_no_vc_check"}  # what AOTAutograd's function keeps beside tensors
EXTERNAL = "_external_objects"  # and since 2.14 the streams and events that Dynamo knows, to be known in the backward


def training(compiled: Call, args: tuple[Any, ...], outputs: Sequence[Any], amp: bool) -> Call | None:
    """A function that does the training step `compiled`, which took `args` and gave `outputs`; None where AOTAutograd has to.

    `amp`: whether it was traced under autocast.
    """
    nodes = [x.grad_fn for x in outputs if isinstance(x, torch.Tensor) and x.grad_fn is not None]
    base = getattr(type(nodes[0]), "_forward_cls", None) if nodes else None
    metadata = getattr(base, "metadata", None)
    if base is None or metadata is None or any(type(node) is not type(nodes[0]) for node in nodes):
        return None
    written = written_by(metadata, args) if is_plain(metadata, args) else None
    if (
        written is None
        or metadata.num_opaque_objects_saved_for_bw
        or metadata.num_backward_tokens
        or metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw
        or metadata.dynamic_saved_tensors_idxs
        or base.maybe_subclass_metadata is not None
        or not {name for name, value in vars(nodes[0]).items() if name != EXTERNAL or value} <= STATE
        or not _connected(nodes[0], args)
    ):
        return None
    # Past what the class in Python does for `torch.func`, which is looked for here: dead wrappers of its tensors fail Dynamo's guards.
    apply = super(torch.autograd.Function, _function(base, amp)).apply

    def direct(*args: Any) -> Any:
        # Called without gradients, the function turns them on for a part itself.
        if in_functorch() or not torch.is_grad_enabled():
            return compiled(*args)
        if written:
            torch.autograd.graph.increment_version([args[i] for i in written])
        return list(apply(*args))

    return direct


def _connected(node: Any, args: Sequence[Any]) -> bool:
    """Whether `node` took each of `args` itself, not another tensor in its place (a detached one, say)."""
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    edges = [before for before, _ in node.next_functions]
    if len(edges) != len(tensors):
        return False
    for before, x in zip(edges, tensors):
        source = getattr(before, "variable", None) if x.is_leaf else before
        if source is not (None if not x.requires_grad else x if x.is_leaf else x.grad_fn):
            return False
    return True


def _function(base: Any, amp: bool) -> type[torch.autograd.Function]:
    """AOTAutograd's function `base` with a shorter forward and backward."""
    tangents = Tangents.of(base.metadata)
    boxed = getattr(base, "boxed_grads_call", False)
    backward = backward_of(base, tangents, amp, boxed)
    members = {
        "forward": staticmethod(_forward_of(base, tangents, amp)),
        "backward": staticmethod(backward),
        "__module__": base.__module__,
    }
    if tangents.several:
        members["_compiled_autograd_key"] = staticmethod(_key_of(base))
    function = type(base)(base.__name__, (base,), members)
    # What the engine calls, without asking for `vjp`.
    setattr(function._backward_cls, "apply_boxed" if boxed else "apply", backward)
    return function


def _forward_of(base: Any, tangents: Tangents, amp: bool) -> Call:
    # Local names: this runs at each forward.
    metadata = base.metadata
    graph = without_autocast(unwrapped(base.compiled_fw)) if amp else unwrapped(base.compiled_fw)
    returned = metadata.num_forward_returns
    checked = metadata.tensors_saved_for_backwards_with_vc_check_slice
    unchecked = metadata.tensors_saved_for_backwards_no_vc_check_slice
    symbols = metadata.symints_saved_for_backwards_slice
    constant = [i for i, info in enumerate(metadata.output_info) if not info.requires_grad]
    given = getattr(metadata, "saved_tensor_is_graph_input", ())  # since 2.14: of what is saved, whether it is an input
    places, several = tangents.places, tangents.several

    def detached(saved: Sequence[torch.Tensor], first: int) -> list[torch.Tensor]:
        """Detaches these tensors, whose first has number `first`, as AOTAutograd saves them: inputs themselves, no other views."""
        return [x.detach() if x._is_view() and not (given and given[first + n]) else x for n, x in enumerate(saved)]

    def forward(ctx: Any, *args: Any) -> tuple[Any, ...]:
        outs = tuple(graph(list(args)))
        watched = outs[checked]
        ctx.save_for_backward(*detached(watched, 0))
        ctx._tensors_no_vc_check = detached(outs[unchecked], len(watched))
        ctx.symints = outs[symbols]
        ctx.opaque_objects = ()
        if constant:
            ctx.mark_non_differentiable(*[outs[i] for i in constant if isinstance(outs[i], torch.Tensor)])
        ctx._materialize_non_diff_grads = False
        if several:
            ctx.set_materialize_grads(False)
            ctx.bascule_outputs = [(x.shape, x.dtype, x.device) for x in map(outs.__getitem__, places)]
        return outs[:returned]

    return forward


def _key_of(base: Any) -> Call:
    def key(ctx: Any) -> Any:
        """The key that compiled autograd asks for before it takes the gradients, which it wants to be tensors."""
        ctx.set_materialize_grads(True)
        return base._compiled_autograd_key(ctx)

    return key
