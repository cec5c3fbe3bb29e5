"""Calls of compiled graphs past AOTAutograd's runtime wrappers, where these have nothing to do.

The wrappers replay views, write back mutations, unwrap subclasses, thread random states and tokens, and look at each call whether they have
to: about 5 us for an inference graph, 40 us for a forward and its backward. A graph whose metadata says that none of this happens is
called as it is from its second call on. The first goes through AOTAutograd, which compiles a backward at its first use, and shows whether
inputs arrive as they were given.

A training step keeps AOTAutograd's own `autograd.Function`, as a base class: what it saves, and all that compiled autograd asks it for, is
the same, and whatever is unusual in a backward (a tangent of other strides, a graph that is kept, a second derivative, `torch.func`) is
handed to the base class. Gradients of outputs that a loss does not depend on (the logits beside the loss) are zeros that are made here.

The private modules of PyTorch that this needs are named here. Run on torch 2.11 to 2.14, whose sources were read; with others all calls go
through the wrappers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import _are_functorch_transforms_active as in_functorch
from torch._C import _get_deterministic_algorithms as deterministic_now
from torch._C._dynamo.eval_frame import get_eval_frame_callback as tracing_callback
from torch._dynamo.eval_frame import innermost_fn
from torch._subclasses.fake_tensor import is_fake
from torch.autograd import forward_ad

from ..fx.boxed import Boxed
from ..torch_patches.versions import is_checked
from .saved_tensor_hooks import hooks_now, hooks_to_mind

VERSIONS = ((2, 11), (2, 14))  # of PyTorch: the first and the last whose wrappers were read
PLAIN = (torch.Tensor, torch.nn.Parameter)
NUMBERS = (int, float, bool, type(None))
TRIES = 3  # calls, of fake tensors for example, that may show nothing
STATE = {"symints", "opaque_objects", "_tensors_no_vc_check"}  # what AOTAutograd's function keeps beside tensors
EXTERNAL = "_external_objects"  # and since 2.14 the streams and events that Dynamo knows, to be known in the backward

Call = Callable[..., Any]


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
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
    amp = torch._C._is_any_autocast_enabled()
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
            direct = _inference(made, args, amp) if inference else _training(compiled, args, outputs, amp)
        return outputs

    return call


def _refuse_duals(args: Sequence[Any]) -> None:
    """Raises for tensors with tangents of forward-mode differentiation, which kernels would drop."""
    if any(isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in args):
        raise RuntimeError(
            "forward-mode differentiation does not go through a compiled function: compile the function that calls torch.func.jvp"
        )


def _plain(metadata: Any, args: Sequence[Any]) -> bool:
    """Whether inputs and outputs are what the compiled graph takes and gives."""
    return (
        len(metadata.input_info) == len(args)
        and all(type(m).__name__ == "PlainTensorMeta" for m in metadata.subclass_inp_meta)
        and all(type(m).__name__ == "PlainTensorMeta" for m in metadata.subclass_fw_graph_out_meta)
        and all(info.output_type.name == "non_alias" for info in metadata.output_info)
        and not metadata.num_mutated_inp_runtime_indices
        and not metadata.num_intermediate_bases
        and not metadata.num_graphsafe_rng_states
        and not metadata.is_rng_op_functionalized
        and not metadata.dynamic_outputs
        and not metadata.tokens
        and not getattr(metadata, "act_input_indices", ())
        and not getattr(metadata, "act_input_paths", ())  # its name since 2.14
        and metadata.grad_enabled_mutation is None
    )


def _unwrapped(graph: Any) -> Boxed:
    """The function under a compiled graph of ours that was called before; one of Inductor's (`on_error`) is called as it is."""
    finished = getattr(graph, "finished", None)  # see bascule/compiled/compiled_graph.py
    return graph if finished is None else finished()


def _without_autocast(graph: Boxed) -> Boxed:
    """`graph`, whose operators were cast when it was traced."""

    def call(args: list[Any]) -> Sequence[Any]:
        with torch._C._DisableAutocast():
            return graph(args)

    return call


def _inference(made: Made, args: Sequence[Any], amp: bool) -> Call | None:
    """`amp`: whether it was traced under autocast."""
    metadata = made.metadata
    if metadata is None or not _plain(metadata, args):
        return None
    graph = _without_autocast(_unwrapped(made.inference)) if amp else _unwrapped(made.inference)
    written = tuple(metadata.mutated_graph_handled_indices_seen_by_autograd)
    if metadata.mutated_graph_handled_indices and not all(type(x) in PLAIN for x in args):
        return None  # inputs that share memory may have become one, and sizes
    grad_enabled, set_grad_enabled = torch.is_grad_enabled, torch._C._set_grad_enabled

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


def _training(compiled: Call, args: tuple[Any, ...], outputs: Sequence[Any], amp: bool) -> Call | None:
    nodes = [x.grad_fn for x in outputs if isinstance(x, torch.Tensor) and x.grad_fn is not None]
    base = getattr(type(nodes[0]), "_forward_cls", None) if nodes else None
    metadata = getattr(base, "metadata", None)
    if base is None or metadata is None or any(type(node) is not type(nodes[0]) for node in nodes):
        return None
    if not _plain(metadata, args) or metadata.mutated_graph_handled_indices:
        return None
    if (
        metadata.num_opaque_objects_saved_for_bw
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
        return compiled(*args) if in_functorch() else list(apply(*args))

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
    metadata = base.metadata
    graph = _without_autocast(_unwrapped(base.compiled_fw)) if amp else _unwrapped(base.compiled_fw)
    returned = metadata.num_forward_returns
    checked, unchecked = (
        metadata.tensors_saved_for_backwards_with_vc_check_slice,
        metadata.tensors_saved_for_backwards_no_vc_check_slice,
    )
    symbols = metadata.symints_saved_for_backwards_slice
    constant = [i for i, info in enumerate(metadata.output_info) if not info.requires_grad]
    tangents = [
        i
        for i, info in enumerate(metadata.output_info)
        if issubclass(info.raw_type, torch.Tensor) and getattr(info, "requires_grad_for_backward", info.requires_grad)
    ]
    formats = [meta.memory_format for meta in metadata.subclass_tangent_meta[: len(tangents)]]
    expected = tuple(zip(tangents, formats, strict=True))
    outputs = len(metadata.output_info)
    given = getattr(metadata, "saved_tensor_is_graph_input", ())  # since 2.14: of what is saved, whether it is an input
    determined = metadata.deterministic
    boxed = getattr(base, "boxed_grads_call", False)  # gradients come as one list, to be emptied
    several = len(tangents) > 1
    peek, keeps_graph = (
        torch._C._functorch.peek_interpreter_stack,
        torch._C._autograd._get_current_graph_task_keep_graph,
    )

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
            ctx.bascule_outputs = [(x.shape, x.dtype, x.device) for x in map(outs.__getitem__, tangents)]
        return outs[:returned]

    def key(ctx: Any) -> Any:
        """The key that compiled autograd asks for before it takes the gradients, which it wants to be tensors."""
        ctx.set_materialize_grads(True)
        return base._compiled_autograd_key(ctx)

    wrapped: Any = None  # the compiled backward as it was at its last call, and what it calls
    inner: Any = None

    def unwrapped_backward(compiled: Any) -> Boxed:
        nonlocal wrapped, inner
        if compiled is not wrapped:
            inner, wrapped = _unwrapped(innermost_fn(compiled)), compiled
        return inner

    def backward(ctx: Any, *given: Any) -> Any:
        grads = given[0] if boxed else list(given)
        backward_graph = base.compiled_bw
        if several and len(grads) == outputs:
            for (i, format_), (sizes, dtype, device) in zip(expected, ctx.bascule_outputs, strict=True):
                if grads[i] is None:  # the loss does not depend on it
                    grads[i] = _zeros(sizes, dtype, device, format_)
            given = (grads,) if boxed else tuple(grads)
        if (
            backward_graph is None
            or len(grads) != outputs
            or torch.is_grad_enabled()
            or keeps_graph()
            or peek() is not None
            or (determined is False and deterministic_now())
            or not all(type(grads[i]) is torch.Tensor and _lies_as(grads[i], format_) for i, format_ in expected)
        ):
            return base.backward(ctx, *given)
        args = [*ctx.symints, *ctx.saved_tensors, *ctx._tensors_no_vc_check, *[grads[i] for i in tangents]]
        grads.clear()
        del given
        ctx.maybe_clear_saved_tensors()
        # The context variables of the thread that called backward(), for Python operators.
        context = torch._C._get_obj_in_tls("context") if torch._C._is_key_in_tls("context") else None
        if tracing_callback() is None:  # else it is wrapped so that Dynamo does not trace it
            backward_graph = unwrapped_backward(backward_graph)
        if amp:
            backward_graph = _without_autocast(backward_graph)
        return tuple(backward_graph(args) if context is None else context.copy().run(backward_graph, args))

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward), "__module__": base.__module__}
    if several:
        members["_compiled_autograd_key"] = staticmethod(key)
    function = type(base)(base.__name__, (base,), members)
    # What the engine calls, without asking for `vjp`.
    setattr(function._backward_cls, "apply_boxed" if boxed else "apply", backward)
    return function


def _zeros(sizes: torch.Size, dtype: torch.dtype, device: torch.device, format_: Any) -> torch.Tensor:
    """A gradient of zeros, laid out as AOTAutograd takes it. Nobody else has it: a program may use its memory for results
    (`runtime/memory/donated_inputs.py`)."""
    found = getattr(format_, "memory_format", None)
    if format_ is None or found is not None or not all(type(step) is int for step in format_.stride):
        x = torch.empty(sizes, dtype=dtype, device=device, memory_format=found or torch.contiguous_format)
    else:
        x = torch.empty_strided(sizes, format_.stride, dtype=dtype, device=device)
    x.bascule_spare = True  # type: ignore[attr-defined]
    return x.zero_()


def _lies_as(x: torch.Tensor, format_: Any) -> bool:
    """Whether AOTAutograd takes the tangent `x` as it is."""
    if format_ is None:
        return False
    if format_.memory_format is not None:
        return x.is_contiguous(memory_format=format_.memory_format)
    return x.shape == format_.size and x.stride() == format_.stride
