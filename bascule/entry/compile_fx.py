"""Entries that take FX graphs, with the parameters and results of Inductor's functions of the same names."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from itertools import count
from typing import Any

import torch

from bascule.frontend.aot.compile_autograd import compile_eagerly, compile_with_autograd
from bascule.frontend.aot.retrace import decomposed, exported_pytree, functional, with_values
from bascule.frontend.freezing.weight_inputs import weight_inputs

from ..aliasing.untracked_writes import run_as_eager
from ..budget.partition import partitioner_of
from ..compat.tensors.pytree import tree_flatten, tree_leaves, tree_unflatten
from ..compiled.compiled_graph import CompiledGraph
from ..compiled.eager import operator_by_operator
from ..compiled.output_code import CompiledFxGraph
from ..compiler.autograd_graph import Shared, compile_autograd_graph
from ..compiler.custom_passes import apply
from ..compiler.decompositions import decompositions_for
from ..compiler.fx_passes import fx_pipeline
from ..cudagraphs.cudagraphify import ForwardDevice, Replays
from ..errors import UserError
from ..options import BUDGET, POST_GRAD, PRE_GRAD, Options, inductors_passes, make_options, options_for
from ..pipelines import pipeline_for
from ..reporting.raise_through_dynamo import raised_as_is
from ..tiers.changeover import Tiers

_numbers = count()


def compile_fx_inner(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile_region_name: str | None = None,
    *,
    cudagraphs: Any = None,
    static_input_idxs: Sequence[int] = (),
    is_backward: bool = False,
    graph_id: int | None = None,
    cpp_wrapper: bool = False,
    fx_wrapper: bool = False,
    aot_mode: bool = False,
    is_inference: bool = False,
    boxed_forward_device_index: Any = None,
    layout_opt: bool | None = None,
    extern_node_serializer: Callable[..., Any] | None = None,
    get_decomp_fn: Callable[[], Mapping[Any, Callable]] | None = None,
    options: Mapping[str, Any] | None = None,
) -> CompiledFxGraph:
    """Compiles `gm`, a graph of ATen operators (and Inductor's own, where its passes have been over it); what it writes to inputs is in them
    after a call.

    The parameters are those of Inductor's `compile_fx_inner`, so that it serves as
    Inductor's `compile_fx(gm, inputs, inner_compile=bascule.compile_fx_inner)`. `example_inputs`: tensors, fake or not,
    numbers and symbolic integers, one a placeholder. `cudagraphs`: whether CUDA graphs are replayed (a bool, or Inductor's boxed one, which
    says False afterwards if the forward is not replayed);
    `static_input_idxs`: of inputs that stay where they are; `boxed_forward_device_index`: where the forward that a backward belongs to is
    replayed; `options`: ours, the passes over each graph as in Inductor's `config` if they leave them open. `compile_region_name`,
    `layout_opt`, `extern_node_serializer` and `get_decomp_fn` tell Inductor's own code generator things that are not needed here.
    Returns an `OutputCode`, called with one list of inputs.
    Raises `UserError` for `cpp_wrapper`, `fx_wrapper` and `aot_mode`, which ask for other kinds of code, and `BasculeError` as `options` say.
    """
    with raised_as_is():
        for name, wanted in {"cpp_wrapper": cpp_wrapper, "fx_wrapper": fx_wrapper, "aot_mode": aot_mode}.items():
            if wanted:
                raise UserError("asks for code of another kind than a Python module", location=f"parameter '{name}'")
        _check_graph(gm)
        _check_outputs(gm)
        _check_inputs(gm, example_inputs)
        asked = {"cudagraphs": bool(cudagraphs), **inductors_passes(POST_GRAD)}
        checked = make_options(None, {**asked, **(options or {})})
        pipeline_for(checked)
        _refuse_of_whole_programs(checked)
        inputs = with_values(gm, example_inputs)
        name = f"fx{next(_numbers) if graph_id is None else graph_id}"
        if run_as_eager(gm, inputs, checked, name):
            return CompiledFxGraph(CompiledGraph(operator_by_operator(gm)))
        gm = decomposed(functional(gm, inputs), inputs, decompositions_for(checked))
        directions: dict[str, Any] = {"is_backward": is_backward, "is_inference": is_inference}
        # The passes over the joint graph are the caller's.
        replays = Replays(checked, forward=boxed_forward_device_index or ForwardDevice())
        compiled = compile_autograd_graph(
            name, checked, None, gm, inputs, joint=False, replays=replays, static_inputs=static_input_idxs, **directions
        )
        if hasattr(cudagraphs, "value") and not (is_backward or is_inference) and replays.forward.value is None:
            cudagraphs.value = False
        return CompiledFxGraph(compiled)


def compile_fx(
    model: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    inner_compile: Callable[..., Callable] = compile_fx_inner,
    config_patches: Mapping[str, Any] | None = None,
    decompositions: Mapping[Any, Callable] | None = None,
    ignore_shape_env: bool = False,
    compile_region_name: str | None = None,
    *,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles `model`, a graph of PyTorch functions or of ATen operators, with autograd through it.

    The parameters are those of Inductor's `compile_fx`; `config_patches` are options of ours, `mode` is that of `torch.compile`.
    `ignore_shape_env`: inputs that are no fake tensors keep their sizes, whatever trace this is called in; `compile_region_name` is of no use
    here.
    Inputs may be lists, tuples and dictionaries of tensors, and the result any tree; a graph of Dynamo's `export` keeps its
    signature. Takes `model` over: it may be changed.
    """
    with raised_as_is():
        options = options_for(mode, config_patches)
        pipeline_for(options)
        _check_graph(model)
        again = partial(
            compile_fx,
            inner_compile=inner_compile,
            config_patches=config_patches,
            decompositions=decompositions,
            ignore_shape_env=ignore_shape_env,
            mode=mode,
        )
        exported = exported_pytree(model)
        if exported is not None:
            compiled = again(model, exported.process_inputs(*example_inputs))
            return wraps(compiled)(lambda *args: exported.process_outputs(compiled(*exported.process_inputs(*args))))
        if not _returns_flat_tuple(model):
            spec = _flatten_outputs(model)
            compiled = again(model, example_inputs)
            return wraps(compiled)(lambda *args: tree_unflatten(compiled(*args), spec))
        _check_inputs(model, example_inputs)
        apply(model, options, PRE_GRAD)
        name = f"fx{next(_numbers)}"
        if run_as_eager(model, example_inputs, options, name):
            return model.forward
        table = decompositions_for(options) if decompositions is None else decompositions
        own = inner_compile is compile_fx_inner
        passes, weights = fx_pipeline(name, options), weight_inputs(model) if options.freezing else None
        shared = Shared(replays=Replays.of(model, options), weights=weights, passes=passes, tiers=Tiers())
        compiler = partial(compile_autograd_graph, name, options, None, **shared) if own else inner_compile
        cut = partitioner_of(options, passes)
        how = {"ignore_shape_env": ignore_shape_env, "passes": passes, "leaning": options.internals}
        how["backward_at_once"] = own and options.tiers
        return compile_with_autograd(model, example_inputs, compiler, table, cut, **how)


def memory_efficient_fusion(
    function: Callable[..., Any] | torch.nn.Module, *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """`function` traced by AOTAutograd without Dynamo, and compiled; its backward recomputes what is cheap to recompute.

    As `functorch.compile.memory_efficient_fusion`: it is traced once, at the first call, and serves inputs like those of that call. The
    min-cut partitioner decides what is saved. `mode` and `options` are those of `torch.compile`.
    """
    with raised_as_is():
        checked = make_options(mode, options)
        pipeline_for(checked)
        if not callable(function):
            raise UserError(f"takes a function or a module, got {function!r}", location="memory_efficient_fusion")
        if checked.memory_budget is not None:
            raise UserError("is for `torch.compile` and `compile_fx`", location=BUDGET)
        name = f"fx{next(_numbers)}"
        passes = fx_pipeline(name, checked)
        shared = Shared(replays=Replays(checked), weights=None, passes=passes, tiers=Tiers())
        compiler = partial(compile_autograd_graph, name, checked, None, **shared)
        return compile_eagerly(function, compiler, decompositions_for(checked), passes)


def _refuse_of_whole_programs(options: Options) -> None:
    """Raises `UserError` for what takes more than one graph."""
    for name, known in {"freezing": "weights from inputs", "tiers": "the backward of a forward"}.items():
        if getattr(options, name):
            raise UserError(f"is for `compile_fx` and `torch.compile`, which know {known}", location=f"option '{name}'")


def _check_graph(gm: Any) -> None:
    if not isinstance(gm, torch.fx.GraphModule):
        raise UserError(
            f"takes a torch.fx.GraphModule, got {type(gm).__name__}",
            location="a graph to compile",
            hint="functions and modules: torch.compile, or make_fx, which makes a graph of a function",
        )


def _check_inputs(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """There is one of `example_inputs`, or of their leaves, for each input of `gm`."""
    if not isinstance(example_inputs, list | tuple):
        raise UserError(f"takes a list of inputs, got {type(example_inputs).__name__}", location="a graph to compile")
    inputs = [node.name for node in gm.graph.find_nodes(op="placeholder")]
    if len(inputs) not in (len(example_inputs), len(tree_leaves(list(example_inputs)))):
        raise UserError(
            f"has {len(inputs)} inputs, got {len(example_inputs)} for them",
            location="a graph to compile",
            hint=f"its placeholders: {', '.join(inputs)}",
        )


def _check_outputs(gm: torch.fx.GraphModule) -> None:
    """`gm` returns a flat tuple or list: a caller unpacks what is returned."""
    if not _returns_flat_tuple(gm):
        raise UserError(
            f"returns {gm.graph.output_node().args[0]!r}, and is to return one tuple or list of values",
            location="a graph to compile",
            hint="`compile_fx` takes graphs that return any tree",
        )


def _returns_flat_tuple(gm: torch.fx.GraphModule) -> bool:
    (outputs,) = gm.graph.output_node().args
    return isinstance(outputs, list | tuple) and not any(isinstance(x, list | tuple | dict) for x in outputs)


def _flatten_outputs(gm: torch.fx.GraphModule) -> Any:
    """Makes `gm` return a list of its outputs' leaves; returns the tree they were in."""
    node = gm.graph.output_node()
    leaves, spec = tree_flatten(node.args[0])
    node.args = (tuple(leaves),)
    gm.recompile()
    return spec
