"""AOTAutograd: a Dynamo graph becomes functional ATen graphs, forward, backward or inference, each given to a compiler."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol

import torch

from bascule.compat.graphs.aot_autograd import aot_function, aot_module, aot_module_simplified
from bascule.compat.graphs.aot_autograd import config as functorch_config
from bascule.compat.graphs.dynamo import GmWrapper, counters, disable, flatten_graph_inputs
from bascule.compat.versions import Internals, internals

from ..aot_runtime.direct_calls import Made, called_directly, made, making
from ..aot_runtime.python_random import with_drawn_numbers
from ..aot_runtime.tangents import tangents_of
from ..fx.boxed import Boxed
from ..fx.graph_ends import DYING, SHARED, TANGENT_OF, VISIBLE, inputs_of, outputs_of
from ..fx.trace_context import TracingContext, context_at_hand, context_for, hint, tracing
from ..fx_pipeline.pipeline import FxPipeline
from ..partitioner.held_tensors import HELD, ON_HOST, RETURNED
from ..partitioner.min_cut import min_cut
from ..regions.trace_once import Begin, inlined, restored, with_regions_once
from .trace_lookup import AtMiss, Lookup, in_turn


class GraphCompiler(Protocol):
    """Compiles one functional graph. `example_inputs` are fake tensors, numbers and symbolic integers, one a
    placeholder.

    Returns a function with the boxed calling convention: it takes one list, which it empties, and returns a sequence.
    """

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], *, is_backward: bool, is_inference: bool
    ) -> Boxed: ...


def compile_with_autograd(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compiler: GraphCompiler,
    decompositions: dict[Any, Callable],
    partition: Callable[..., Any] | None = None,
    lookup: Lookup | None = None,
    ignore_shape_env: bool = False,
    leaning: Internals | None = None,
    passes: FxPipeline | None = None,
    backward_at_once: bool = False,
) -> Callable[..., Any]:
    """`gm` as Dynamo made it, compiled, with autograd through it.

    A graph that needs gradients is traced jointly with its backward and split by `partition`, else by the min-cut partitioner, which saves
    what is cheap to save and recomputes what is cheap to recompute. `passes` run over `gm`, over the joint graph before the min-cut
    partitioner, and over an inference graph. In a graph that does not, mutations of inputs stay
    in the graph (`aten.copy_`). With `ignore_shape_env` inputs that are no fake tensors keep their sizes, in whatever trace this is called. With
    `lookup`, what an equal graph became is loaded, or kept; it gives the decompositions then, and `compiler` returns what
    `frontend/aot/autograd_cache.py` takes. `leaning`: the parts that lean on PyTorch's internals; None: those of this version.
    `backward_at_once`: the backward is given to `compiler` right after its forward, not when it is first called.
    """
    leaning = internals() if leaning is None else leaning
    passes = passes or FxPipeline()
    partition = partition or partial(min_cut, passes=passes)
    if isinstance(gm, torch.fx.GraphModule):
        passes.run("dynamo", gm, *(["gradients"] if needs_gradients(example_inputs) else []))
    if any(isinstance(x, list | tuple | dict) for x in example_inputs):  # compiled autograd passes lists
        rest = (compiler, decompositions, partition, lookup, ignore_shape_env, leaning, passes, backward_at_once)
        return flatten_graph_inputs(gm, example_inputs, lambda gm, inputs: compile_with_autograd(gm, inputs, *rest))

    given = with_drawn_numbers(gm)
    context = context_for(example_inputs)
    compilers = _compilers(compiler, partition, passes, context, lookup is not None, leaning)
    # By which DDP's optimizer knows that the first call can be with fake tensors.
    counters["aot_autograd"]["total"] += 1

    def traced(begin: Begin) -> Callable[..., Any]:
        looked_up = None if lookup is None else AtMiss(lookup, begin)
        with _traced_for(context, looked_up, leaning, _settings(gm, passes, backward_at_once)) as found:
            with restored(gm):
                if lookup is None:
                    begin(decompositions)
                compiled = aot_module_simplified(
                    gm,
                    example_inputs,
                    **compilers,
                    decompositions=decompositions,
                    keep_inference_input_mutations=True,
                    ignore_shape_env=ignore_shape_env,
                )
            if isinstance(gm, GmWrapper):  # which takes its inputs as a list
                return compiled
            # Where AOTAutograd itself answers the first call with fake tensors (DDP's), it has to have it.
            operators = None if context.fakify_first_call else gm.forward
            return called_directly(compiled, found, operators, leaning.direct_calls)

    compiled = with_regions_once(traced, gm, passes, leaning.trace_patches)
    counters["aot_autograd"]["ok"] += 1
    return disable(given(compiled), reason="a compiled graph")


def _compilers(
    compiler: GraphCompiler,
    partition: Callable[..., Any],
    passes: FxPipeline,
    context: TracingContext,
    keeping: bool,
    leaning: Internals,
) -> dict[str, Callable[..., Any]]:
    """`compiler` and `partition` under AOTAutograd's names; `keeping`: what they make can be kept."""
    regions = leaning.trace_patches  # graphs may call some
    forward = partial(compiler, is_backward=False, is_inference=False)
    return {
        "fw_compiler": _serializable(forward) if keeping else forward,
        "bw_compiler": _backward_compiler(compiler),
        "inference_compiler": _inference_compiler(compiler, context, passes, regions),
        "partition_fn": _of_inlined(partition) if regions else partition,
    }


@contextmanager
def _traced_for(
    context: TracingContext, lookup: Lookup | None, leaning: Internals, settings: AbstractContextManager[None]
) -> Iterator[Made]:
    """The state in which AOTAutograd traces a graph: with what is changed in PyTorch meanwhile. Gives what the trace comes to."""
    with tracing(context), settings, _looked_up(lookup), making() as found, _patched(leaning):
        yield found


@contextmanager
def _settings(gm: torch.nn.Module, passes: FxPipeline, backward_at_once: bool) -> Iterator[None]:
    """PyTorch's settings for the trace of `gm`."""
    own = functorch_config.patch(
        unlift_effect_tokens=True,  # ordered side effects (as of a print) carry no token arguments into the graphs
        force_non_lazy_backward_lowering=backward_at_once or functorch_config.force_non_lazy_backward_lowering,
        # Where nothing is differentiated inside, what is checkpointed is computed once, whatever it draws.
        remat_using_tags_for_fwd_loss_bwd_graph=_differentiates(gm)
        and functorch_config.remat_using_tags_for_fwd_loss_bwd_graph,
    )
    with own, nullcontext() if "philox" in passes.settings else _draws_kept():
        yield


def _differentiates(gm: torch.nn.Module) -> bool:
    """Whether `gm`, as Dynamo made it, has gradients of its own: calls of `torch.autograd.grad`, or what the user marks as a backward."""
    nodes = [node for part in gm.modules() if isinstance(part, torch.fx.GraphModule) for node in part.graph.nodes]
    return any(
        node.meta.get("autograd_backward") or node.meta.get("custom", {}).get("phase") == "backward" for node in nodes
    )


def _draws_kept() -> AbstractContextManager[None]:
    """While anybody is inside, a node that draws from a generator stays in its graph though nothing uses what it draws: what eager draws after
    it depends on it. PyTorch asks Inductor's setting of that."""
    from bascule.compat.inductor.settings import config

    return config.patch(fallback_random=True)


def _looked_up(lookup: Lookup | None) -> AbstractContextManager[None]:
    if lookup is None:
        return in_turn(None)
    from .autograd_cache import looking_up

    return looking_up(lookup)


def _serializable(compiler: GraphCompiler) -> Callable[..., Any]:
    from .autograd_cache import serializable

    return serializable(compiler)


def _patched(leaning: Internals) -> AbstractContextManager[None]:
    if not leaning.trace_patches:
        return nullcontext()
    from .patches_in_force import trace_patches

    return trace_patches()


def _of_inlined(partition: Callable[..., Any]) -> Callable[..., Any]:
    """`partition`, given joint graphs without calls of regions."""

    def split(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        inlined(joint.graph)
        return partition(joint, *args, **kwargs)

    return split


def _inference_compiler(
    compiler: GraphCompiler, context: TracingContext, passes: FxPipeline, regions: bool
) -> Callable[..., Callable]:
    """`compiler` for a graph that needs no gradients, after its `passes`; `made` is told of it."""

    def inference(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        if functorch_config.functionalize_rng_ops:  # the state of the generator is among them twice
            example_inputs = example_inputs[: len(inputs_of(gm.graph))]
        if regions:
            inlined(gm.graph)
        passes.run("inference", gm)
        compiled = compiler(gm, example_inputs, is_backward=False, is_inference=True)
        made(context.fw_metadata, compiled)
        return compiled

    return inference


def _backward_compiler(compiler: GraphCompiler) -> Callable[..., Callable]:
    """`compiler` for a backward. It runs when autograd first needs it, maybe inside a function that Dynamo (compiled autograd) is tracing:
    neither the compiler nor what it makes is to be traced. Numbers have the dtype that they had where its graph was traced: that is now."""
    traced_under = torch.get_default_dtype()

    def backward(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        mark_backward_inputs(gm)
        make = disable(partial(compiler, is_backward=True, is_inference=False), reason="the backward compiler")
        with _default_dtype(traced_under):
            return disable(make(gm, example_inputs), reason="a compiled backward")

    return backward


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def needs_gradients(example_inputs: Sequence[Any]) -> bool:
    """Whether a graph of these inputs is traced with its backward."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs)


def compile_eagerly(
    function: Callable[..., Any] | torch.nn.Module,
    compiler: GraphCompiler,
    decompositions: dict[Any, Callable],
    passes: FxPipeline,
) -> Callable[..., Any]:
    """`function` traced by AOTAutograd alone, without Dynamo, at its first call and for inputs like those of it; `passes` run over its joint
    graph."""
    aot = aot_module if isinstance(function, torch.nn.Module) else aot_function
    with functorch_config.patch(unlift_effect_tokens=True):
        return aot(
            function,
            fw_compiler=partial(compiler, is_backward=False, is_inference=False),
            bw_compiler=partial(compiler, is_backward=True, is_inference=False),
            inference_compiler=partial(compiler, is_backward=False, is_inference=True),
            partition_fn=partial(min_cut, passes=passes),
            decompositions=decompositions,
        )


def report_output_strides(gm: torch.fx.GraphModule) -> None:
    """Tells the context of the trace at hand, if there is one, which strides the compiled `gm` gives its outputs: those it was traced with.

    The backward is traced for them, and the first call under a fake mode (DDP's) returns fake tensors that have them.
    """
    context = context_at_hand()
    if context is None or context.output_strides is None:
        return
    number = (lambda size: size) if context.fakify_first_call else hint
    for output in outputs_of(gm.graph):
        value = output.meta.get("val") if isinstance(output, torch.fx.Node) else None
        strides = tuple(map(number, value.stride())) if isinstance(value, torch.Tensor) else None
        context.output_strides.append(strides)


def mark_visible_outputs(gm: torch.fx.GraphModule) -> None:
    """Notes on the output node of a training step's forward how many outputs, the first ones, the user sees; the others are saved for the
    backward. Unlike Inductor's, that looks at each call which of them it may write: AOTAutograd need not refuse to keep the graph."""
    context = context_at_hand()
    if context is not None and context.fw_metadata is not None:
        gm.graph.output_node().meta[VISIBLE] = context.fw_metadata.num_forward
        context.fw_metadata.bw_donated_idxs = []


def mark_backward_inputs(gm: torch.fx.GraphModule) -> None:
    """Notes which inputs of a backward nobody else holds: the gradients, and what the forward saved but what the user has too, or
    the host (its memory is none of the device's); and which gradients autograd will hardly have: those of tensors that are returned beside a
    number, a loss.

    The partitioner calls the forward's inputs `primals_1`, ... in both graphs.
    """
    inputs = inputs_of(gm.graph)
    for node in inputs:
        others = node.name.startswith("primals_") or HELD in node.meta or ON_HOST in node.meta
        node.meta[DYING], node.meta[SHARED] = not others, node.meta.get(RETURNED, False)
    tangents = [inputs[number] for number in tangents_of(gm.graph)]
    if any(node.meta["val"].dim() == 0 for node in tangents):
        for node in tangents:
            node.meta[TANGENT_OF] = node.meta["val"].dim() > 0
