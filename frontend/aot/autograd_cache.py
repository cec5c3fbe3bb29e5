"""AOTAutograd's results kept from process to process: a graph whose like was traced before is not traced again.

AOTAutograd asks its own cache, `AOTAutogradCache`, for compilers that can be kept (`SerializableAOTDispatchCompiler`), and gives it what a trace
came to: the compiled graphs' keys, the metadata of its runtime wrappers, the guards. That is used here, with three things replaced for our own
compiles: the key (PyTorch's imports all of Inductor's code generators, seconds), where the results are kept, and how a compiled graph is
found again. Other backends' lookups are as they were.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import signature
from time import time_ns
from types import SimpleNamespace
from typing import Any

import torch
from bascule.dialect.interrupts import pass_on
from torch.fx import GraphModule

from bascule.compat.graphs.aot_autograd import config
from bascule.compat.graphs.autograd_cache import (
    AOTAutogradCache,
    AOTAutogradCacheInfo,
    BypassAOTAutogradCache,
    SerializableAOTDispatchCompiler,
    check_cacheable,
    should_bundle_autograd_cache,
    should_use_local_autograd_cache,
    should_use_remote_autograd_cache,
)
from bascule.compat.graphs.dynamo import GmWrapper, compiled_autograd, counters, disable
from bascule.compat.graphs.symbolic_shapes import config as symbols_config
from bascule.compat.inductor.settings import OutputCode
from bascule.compat.operators.dispatch import without_dispatch_modes
from bascule.compat.operators.schemas import HigherOrderOperator

from ..aot_runtime.direct_calls import made
from ..fx.boxed import Boxed
from ..fx.trace_context import context_at_hand, context_for, hint, tracing
from .graph_key import NotKeyed, graph_text, inputs_text, settings_text, state_text
from .restarts import restarts
from .trace_lookup import Lookup, Result, current, in_turn

_SHOWN = ("aot_joint_graph_str", "aot_forward_graph_str", "aot_backward_graph_str", "min_cut_info_str")  # only for logs
# Settings that PyTorch's copy of its configuration leaves out.
_CALLABLES = (
    "joint_custom_pass",
    "activation_memory_budget_runtime_estimator",
    "activation_memory_budget_solver",
)


@dataclass
class Graph:
    """One compiled graph of a kept result, by its number among them; AOTAutograd loads it through this."""

    number: int
    call: Boxed | None = None

    def load(self, example_inputs: Sequence[Any]) -> Boxed:
        assert self.call is not None, "a graph that was not given its function"
        return self.call

    def post_compile(self, call: Boxed, fx_config: Any) -> Boxed:
        return call


@dataclass
class Backward(Graph):
    """The graph of a backward, with what AOTAutograd has to know of it."""

    backward_state_indices: list[int] = field(default_factory=list)
    num_symints_saved_for_bw_: int = 0

    def post_compile(self, call: Boxed, fx_config: Any) -> Boxed:
        return disable(call, reason="a compiled backward")


class _Key(str):
    """Stands for the key in AOTAutograd's hands. `floats`: the symbols of floats among the inputs, which are tensors there. `settings`: those of
    PyTorch that it covers."""

    lookup: Lookup
    floats: frozenset[Any]
    settings: str


# Higher-order operators that PyTorch's own cache does not take.
CONTROL = ("cond", "switch", "while_loop", "scan", "map_impl", "associative_scan")
KEPT = "_fx_graph_cache_key"  # what a compiled graph has to have to be kept


def unavailable() -> str | None:
    """Why AOTAutograd's results are not kept at all; None if they are."""
    if torch.compiler.config.force_disable_caches:
        return "torch.compiler.config.force_disable_caches"
    if not (should_use_local_autograd_cache() or should_use_remote_autograd_cache()):
        return "AOTAutograd's config.enable_autograd_cache is off"
    if should_bundle_autograd_cache():
        return "PyTorch is asked to bundle compiled code"
    return None


def serializable(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """`compiler`, whose graphs can be kept, as AOTAutograd wants it."""
    return SerializableAOTDispatchCompiler(OutputCode, compiler)


@contextmanager
def looking_up(lookup: Lookup) -> Iterator[None]:
    """The next graph that AOTAutograd is given in this thread is looked up by `lookup`."""
    _install()
    with in_turn(lookup), restarts(lookup.restarted):
        yield


@cache
def _install() -> None:
    """Puts our lookups before PyTorch's."""
    load, save = AOTAutogradCache.try_load, AOTAutogradCache.save
    returns_config = "tuple" in str(signature(load).return_annotation)

    def try_load(mod: Any, args: Any, aot_config: Any, *rest: Any, **named: Any) -> Any:
        lookup = current.get()
        if lookup is None:
            return load(mod, args, aot_config, *rest, **named)
        current.set(None)
        found, changed = _load(lookup, mod.gm if isinstance(mod, GmWrapper) else mod, args, aot_config)
        if returns_config:
            return found, replace(aot_config, **changed)
        for name, value in changed.items():
            setattr(aot_config, name, value)
        return found

    def save_(key: str, entry: Any, remote: bool) -> None:
        if isinstance(key, _Key):
            _save(key, entry)
        else:
            save(key, entry, remote)

    AOTAutogradCache.try_load = staticmethod(try_load)
    AOTAutogradCache.save = staticmethod(save_)


def _load(lookup: Lookup, gm: GraphModule, args: Any, aot_config: Any) -> tuple[Any, dict[str, Any]]:
    """Looks a graph up; returns what was found, and the changes to make in `aot_config`."""
    try:
        found = lookup.load(gm, args, aot_config)
    except NotKeyed as reason:
        lookup.refuse(str(reason))
        counters["aot_autograd"]["autograd_cache_bypass"] += 1
        return None, {"decompositions": lookup.decompositions()}
    counters["aot_autograd"]["autograd_cache_miss" if found is None else "autograd_cache_hit"] += 1
    if found is not None:
        return found, {}
    key = _Key("bascule")
    key.lookup, key.floats, key.settings = lookup, _floats(gm), settings_text()
    info = AOTAutogradCacheInfo(key, time_ns(), forward_symints=_symbols(args))
    return None, {"decompositions": lookup.decompositions(), "cache_info": info}


def _floats(gm: GraphModule) -> frozenset[Any]:
    values = (node.meta.get("example_value") for node in gm.graph.nodes)
    return frozenset(symbol for x in values if isinstance(x, torch.SymFloat) for symbol in x.node._expr.free_symbols)


def _save(key: _Key, entry: Any) -> None:
    lookup, context = key.lookup, context_at_hand()
    if key.settings != settings_text():
        lookup.refuse("settings of PyTorch were changed between the forward and the compile of its backward")
        return
    if context is None or context.guards_context.aotautograd_guards:
        lookup.refuse("inputs share memory")
        return
    # The guards of an entry are on integers alone. With those of Dynamo's that the trace adds another float is traced anew.
    if any(key.floats & guard.expr.free_symbols for guard in _shape_env().guards):
        lookup.refuse("a float that is no constant for Dynamo is one in the graph")
        return
    forward, backward = entry.compiled_fw, entry.compiled_bw
    kept = copy(entry)
    keys = [forward.fx_graph_cache_info[0]]
    kept.compiled_fw = Graph(0)
    if backward is not None:
        keys.append(backward.fx_graph_cache_info[0])
        kept.compiled_bw = Backward(1, None, backward.backward_state_indices, backward.num_symints_saved_for_bw_)
    for name in _SHOWN:
        if hasattr(kept, name):
            setattr(kept, name, None)
    if _calls_graphs(entry.serialized_bw_module):
        lookup.refuse("its backward calls graphs, and PyTorch cannot read it again for compiled autograd")
        return
    with without_dispatch_modes():
        try:
            content = pickle.dumps(kept)
        except Exception as error:  # pickling runs code of whatever classes the metadata holds
            pass_on(error)
            lookup.refuse(f"its metadata cannot be written down: {error}")
            return
        lookup.save(Result(tuple(keys), entry.guards_expr, content))
    counters["aot_autograd"]["autograd_cache_saved"] += 1


def _calls_graphs(module: Any) -> bool:
    """Of a backward as PyTorch wrote it down. To be a graph again it is traced, which operators that call graphs do not take."""
    return module is not None and any(isinstance(x, GraphModule) for x in module.args[0].get("_modules", {}).values())


def key_text(gm: GraphModule, args: Sequence[Any], aot_config: Any) -> str:
    """All that tracing `gm` depends on. Raises `NotKeyed`."""
    try:
        check_cacheable(_doubtful(gm))
    except BypassAOTAutogradCache as reason:
        raise NotKeyed(str(reason).splitlines()[0]) from reason
    except (
        AttributeError,
        AssertionError,
    ) as reason:  # `x.data = y` calls what has no module, a number's method is none
        raise NotKeyed(f"PyTorch does not take one of its functions for a key: {reason}") from reason
    if _shape_env() is None:
        raise NotKeyed("traced without an environment for symbols")
    if any(callable(getattr(config, name, None)) for name in _CALLABLES):
        raise NotKeyed("a function of the user's own decides what is saved")
    sources = [_name(source) for source in aot_config.aot_autograd_arg_pos_to_source or ()]
    told = [
        (aot_config.num_params_buffers, aot_config.keep_inference_input_mutations, aot_config.is_export),
        (aot_config.no_tangents, aot_config.dynamic_shapes, aot_config.pre_dispatch),
        (getattr(aot_config, "static_input_indices", None), sources),
        compiled_autograd.in_compiled_autograd_region,
        (config.save_config(), symbols_config.save_config()),
    ]
    return "\n".join([repr(told), state_text(), inputs_text(args), graph_text(gm)])


def _doubtful(gm: GraphModule) -> Any:
    """`gm` as far as PyTorch is asked whether it can be kept: without operators that only call graphs, which are in the key."""
    nodes = [
        node for node in gm.graph.nodes if node.op != "call_function" or _name_of_operator(node.target) not in CONTROL
    ]
    return SimpleNamespace(graph=SimpleNamespace(nodes=nodes))


def _name_of_operator(target: Any) -> str | None:
    return target.name() if isinstance(target, HigherOrderOperator) else None


def _name(source: Any) -> str:
    name = getattr(source, "name", None)
    return str(name() if callable(name) else name)


def holds(guards: str | None, args: Sequence[Any]) -> bool:
    """Whether the numbers that the symbols of `args` stand for now satisfy `guards`."""
    hints = [hint(symbol) for symbol in _symbols(args)]
    return not guards or bool(_shape_env().evaluate_guards_expression(guards, hints))


def restored(content: bytes, calls: Sequence[Boxed], args: Sequence[Any], aot_config: Any) -> Callable[..., Any]:
    """The function that AOTAutograd made; `calls` are the compiled graphs, forward first. Adds the guards to the symbols' environment.

    `content` is unpickled: it has to be the user's own.
    """
    return _restored(pickle.loads(content), calls, args, aot_config)


def restored_alone(content: bytes, calls: Sequence[Boxed]) -> Callable[..., Any]:
    """The same, without a trace at hand: who calls it has seen to the guards. It takes its arguments as a list."""
    entry = pickle.loads(content)
    entry.guards_expr = None
    with tracing(context_for([])):
        return _restored(entry, calls, (), entry.sanitized_aot_config)


def _restored(entry: Any, calls: Sequence[Boxed], args: Sequence[Any], aot_config: Any) -> Callable[..., Any]:
    entry.compiled_fw.call = calls[0]
    if entry.compiled_bw is not None:
        entry.compiled_bw.call = calls[1]
    made(entry.runtime_metadata, calls[0] if len(calls) == 1 else None)
    return entry.wrap_post_compile(list(args), aot_config, {"cudagraphs": None, "boxed_forward_device_index": None})


def _symbols(args: Sequence[Any]) -> list[torch.SymInt]:
    return AOTAutogradCache._filter_backed_symints(args)


def _shape_env() -> Any:
    return AOTAutogradCache._get_shape_env()
