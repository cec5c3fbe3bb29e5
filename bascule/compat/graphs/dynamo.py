"""Dynamo: settings, counters, what it wraps and skips, what its graphs call, where a value comes from, errors. Checked on torch 2.11 to 2.14."""

from typing import Any

import torch
from torch._C import _log_api_usage_once as log_api_usage_once
from torch._C import _set_grad_enabled as set_grad_enabled
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo import (
    compiled_autograd,
    config,
    convert_frame,
    disable,
    dont_skip_tracing,
    guards,
    output_graph,
    reset,
    trace_rules,
)
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._dynamo.callback import callback_handler
from torch._dynamo.debug_utils import minifier_dir
from torch._dynamo.eval_frame import cached_backends, innermost_fn
from torch._dynamo.exc import (
    ShortenTraceback,
    SpeculationRestartAnalysis,
    TensorifyScalarRestartAnalysis,
    TorchDynamoException,
)
from torch._dynamo.source import ConstantSource
from torch._dynamo.symbolic_convert import InliningInstructionTranslator, InstructionTranslatorBase, TensorifyState
from torch._dynamo.utils import GmWrapper, counters, detect_fake_mode, flatten_graph_inputs, get_debug_dir
from torch._dynamo.variables import higher_order_ops
from torch._dynamo.variables.builder import VariableBuilder

# Where Dynamo finds `local_map` as it wraps it.
LOCAL_MAP_MODULE = "torch.distributed.tensor.experimental._func_map"
# What stands for `x.data = y`: from 2.14 on the second, after which the value that is noted of an input `x` is still the one before.
SET_DATA = (torch.Tensor.set_, getattr(torch.ops.aten, "shallow_copy_data_", None))

# What adds the gradients of a tensor that scores of `flex_attention` read to zeros, at the places where they did.
ZEROS_AND_SCATTER = torch.ops.flex_lib.zeros_and_scatter.default


def compilers_in_use() -> list[Any]:
    """The backends that `torch.compile` was given since the last `torch.compiler.reset`."""
    return [x for x in cached_backends.values() if callable(x)]  # one that only runs, or is disabled, has none


__all__ = [
    "LOCAL_MAP_MODULE",
    "SET_DATA",
    "ZEROS_AND_SCATTER",
    "ConstantSource",
    "GmWrapper",
    "InliningInstructionTranslator",
    "InstructionTranslatorBase",
    "ShortenTraceback",
    "SpeculationRestartAnalysis",
    "TensorifyScalarRestartAnalysis",
    "TensorifyState",
    "TorchDynamoException",
    "TransformGetItemToIndex",
    "VariableBuilder",
    "callback_handler",
    "compiled_autograd",
    "compilers_in_use",
    "config",
    "convert_frame",
    "counters",
    "detect_fake_mode",
    "disable",
    "dont_skip_tracing",
    "flatten_graph_inputs",
    "get_debug_dir",
    "get_eval_frame_callback",
    "guards",
    "higher_order_ops",
    "innermost_fn",
    "log_api_usage_once",
    "minifier_dir",
    "output_graph",
    "reset",
    "set_grad_enabled",
    "trace_rules",
]
