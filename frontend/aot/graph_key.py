"""The key of a trace, as text: the graph of Dynamo's, its inputs, the state of PyTorch.

Equal texts stand for equal traces, so nothing is left out because it seems not to matter, and only what is known is taken: a graph with anything
else raises `NotKeyed`. Operators of the user's own are such a thing, since their backwards are Python that a key cannot see; those of an
installed package go by its version.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from bascule.compat.operators.dispatch import dispatch_modes, is_traceable_wrapper_subclass
from bascule.compat.operators.schemas import HigherOrderOperator, OpOverload, OpOverloadPacket
from bascule.compat.tensors.fake_tensors import FakeTensor
from bascule.compat.tensors.functorch import peek_interpreter_stack

from ..fx.custom_operators import told_of_operator
from ..fx.matmul_precision import matmul_settings
from ..fx.storages import storage
from .process_groups import GROUPED, processes, told_of_mesh

_MODULES = {"torch", "operator", "_operator", "math", "builtins"}  # where functions in a graph come from
_NAMESPACES = ("aten", "prims", "bascule")
_ANNOTATIONS = ("custom", "recompute", "ac_graph_id")  # metadata of nodes that decides what is traced or saved
_SYMBOLIC = torch.SymInt | torch.SymFloat | torch.SymBool


class NotKeyed(Exception):
    """There is no key for it, so that it is not kept on disk; the text says why."""


def nodes_of(gm: GraphModule) -> Iterator[Node]:
    """The nodes of `gm` and of the graphs that it calls, in an order that is the same for equal graphs."""
    return (node for module in gm.modules() if isinstance(module, GraphModule) for node in module.graph.nodes)


def graph_text(gm: GraphModule) -> str:
    """The operators of `gm`, a graph of Dynamo's, with all their arguments."""
    lines = []
    for name, module in gm.named_modules():
        if not isinstance(module, GraphModule):
            if type(module) is not torch.nn.Module or name == "":
                raise NotKeyed(f"the graph calls a module, '{name}'")
            continue
        if module.meta.get("_checkpoint_context_fn") is not None:
            raise NotKeyed("a function says what a checkpoint saves")
        if module.meta.get("nested_region_config") is not None:
            raise NotKeyed("a region says how it is compiled")
        lines.append(f"graph {name}")
        lines += (_node(module, node) for node in module.graph.nodes)
    if hasattr(gm, "saved_tensors_hooks_pack_0"):
        raise NotKeyed("hooks on saved tensors")
    return "\n".join(lines)


def _node(module: GraphModule, node: Node) -> str:
    annotations = [(name, node.meta[name]) for name in _ANNOTATIONS if node.meta.get(name)]
    parts = [node.op, node.name, _target(module, node), literal(node.args), literal(node.kwargs), literal(annotations)]
    return " ".join(parts)


def _target(module: GraphModule, node: Node) -> str:
    match node.op:
        case "call_function":
            return _function(node.target)
        case "get_attr":
            return _attribute(module, node.target)
        case "placeholder" | "output" | "call_method":
            return str(node.target)
    raise NotKeyed(f"a node of kind '{node.op}'")


def _attribute(module: GraphModule, target: str) -> str:
    """A graph, or a parameter or buffer, of which the inputs tell; a value of another kind is in no key."""
    value: Any = module
    for part in target.split("."):
        value = getattr(value, part)
    registered = any(value is x for found in (module.parameters(), module.buffers()) for x in found)
    if not isinstance(value, GraphModule) and not registered:
        raise NotKeyed(f"the graph holds a value of its own, '{target}'")
    return target


def _function(target: Any) -> str:
    match target:
        case OpOverload() if target.namespace in _NAMESPACES:
            return str(target)
        case OpOverloadPacket() if target._qualified_op_name.split("::")[0] in _NAMESPACES:
            return str(target)
        case OpOverload() | OpOverloadPacket() if _namespace(target) in GROUPED:
            return f"{target} {processes()}"
        case OpOverload() | OpOverloadPacket():
            told = told_of_operator(target)
            if told is None:
                raise NotKeyed(f"'{target}' is an operator from outside of PyTorch's own, and of no installed package")
            return f"{target} {told}"
        case HigherOrderOperator():
            return target.name()
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    short = getattr(target, "__name__", "")
    if "<" in str(name) and getattr(sys.modules.get(str(module)), short, None) is target:
        name = short  # made by a function, as `torch.nn.functional.max_pool2d` is
    known = module is None or module.split(".")[0] in _MODULES
    if name is None or not known or "<" in name:
        raise NotKeyed(f"a function from outside of PyTorch, {module}.{name or target!r}")
    return f"{module}.{name}"


def _namespace(target: OpOverload | OpOverloadPacket) -> str:
    name = target._qualified_op_name if isinstance(target, OpOverloadPacket) else target._schema.name
    return name.partition("::")[0]


def literal(value: Any) -> str:
    """A value as text. Raises `NotKeyed` for what has none that says all of it."""
    match value:
        case Node():
            return f"%{value.name}"
        case None | bool() | int() | float() | complex() | str() | bytes() if type(value).__module__ == "builtins":
            return repr(value)
        case torch.dtype() | torch.device() | torch.layout() | torch.memory_format():
            return str(value) if not isinstance(value, torch.device) else f"device {value}"
        case list() | tuple():
            return f"{type(value).__name__}({', '.join(map(literal, value))})"
        case dict():
            return "{" + ", ".join(f"{literal(name)}: {literal(part)}" for name, part in value.items()) + "}"
        case slice():
            return f"slice({literal(value.start)}, {literal(value.stop)}, {literal(value.step)})"
        case range():
            return repr(value)
        case type() if value.__module__.split(".")[0] in _MODULES:
            return f"{value.__module__}.{value.__qualname__}"
        case torch.SymInt() | torch.SymFloat() | torch.SymBool():
            return f"symbol {value.node.expr}"
    if value is Ellipsis:
        return "..."
    if (told := told_of_mesh(value)) is not None:
        return told
    raise NotKeyed(f"the graph holds an object of type {type(value).__module__}.{type(value).__qualname__}")


def inputs_text(args: Sequence[Any]) -> str:
    """The inputs, fake tensors and numbers: what they are and which share memory, and what is known of their symbols."""
    storages: dict[int | None, int] = {}
    symbols: dict[str, str] = {}
    lines = [_input(value, storages, symbols) for value in args]
    return "\n".join([*lines, json.dumps(symbols, sort_keys=True)])


def _input(value: Any, storages: dict[int | None, int], symbols: dict[str, str]) -> str:
    if isinstance(value, _SYMBOLIC):
        return f"{type(value).__name__} {_size(value, symbols)}"
    if not isinstance(value, torch.Tensor):
        return literal(value)
    if value.layout is not torch.strided or value.is_quantized:
        raise NotKeyed("an input is a sparse or quantized tensor")
    told = [
        "parameter" if isinstance(value, torch.nn.Parameter) else "tensor",
        value.dtype,
        f"device {value.device}",
        [_size(n, symbols) for n in value.shape],
        [_size(n, symbols) for n in value.stride()],
        _size(value.storage_offset(), symbols),
        *(value.requires_grad, value.is_leaf, value.is_conj(), value.is_neg(), value.is_inference()),
    ]
    if is_traceable_wrapper_subclass(value):
        if type(value).__module__.split(".")[0] not in _MODULES:
            raise NotKeyed(f"an input is of a class of the user's own, {type(value).__qualname__}")
        parts, context = value.__tensor_flatten__()  # type: ignore[attr-defined]
        inside = [_input(getattr(value, part), storages, symbols) for part in parts]
        return f"{type(value).__module__}.{type(value).__qualname__} {told} {literal(context)} {inside}"
    if type(value) not in (FakeTensor, torch.Tensor, torch.nn.Parameter):
        raise NotKeyed(f"an input is of type {type(value).__qualname__}")
    told += [storages.setdefault(storage(value), len(storages)), _size(value.untyped_storage().nbytes(), symbols)]
    return " ".join(map(str, told))


def _size(number: Any, symbols: dict[str, str]) -> str:
    """A number as text; of its symbols, the range that is known goes to `symbols`."""
    if not isinstance(number, _SYMBOLIC):
        return repr(number)
    if free_unbacked_symbols(number):
        raise NotKeyed("a size that is only known when the graph runs")
    expression, environment = number.node.expr, number.node.shape_env
    for symbol in expression.free_symbols:
        symbols[str(symbol)] = str(environment.var_to_range.get(symbol))
    symbols[""] = str(getattr(environment, "settings", None))
    return str(expression)


def state_text() -> str:
    """The part of PyTorch's global state that tracing looks at. Raises `NotKeyed` inside of modes and transforms."""
    from bascule.compat.operators.autograd_state import autocast_devices

    if dispatch_modes() or peek_interpreter_stack() is not None:
        raise NotKeyed("traced inside of a mode or a function transform")
    autocast = [
        (kind, torch.get_autocast_dtype(kind)) for kind in autocast_devices() if torch.is_autocast_enabled(kind)
    ]
    told = [
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        autocast,
        torch.is_autocast_cache_enabled(),
        str(torch.get_default_device()),
        torch.is_anomaly_enabled(),
    ]
    return f"{told!r} {settings_text()}"


def settings_text() -> str:
    """The part of it that compiling looks at: a backward is compiled when it is first called, after the user may have changed it."""
    from bascule.compat.operators.autograd_state import mkldnn_enabled

    backends = torch.backends
    told = [
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch.get_default_dtype(),
        matmul_settings(),
        (backends.cuda.flash_sdp_enabled(), backends.cuda.mem_efficient_sdp_enabled()),
        (backends.cuda.math_sdp_enabled(), backends.cuda.cudnn_sdp_enabled()),
        (
            backends.cudnn.enabled,
            backends.cudnn.deterministic,
            backends.cudnn.benchmark,
            backends.cudnn.conv.fp32_precision,
        ),
        mkldnn_enabled(),
    ]
    return repr(told)
