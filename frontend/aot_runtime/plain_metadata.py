"""Compiled graphs under AOTAutograd's wrappers: whether its metadata says that the wrappers have nothing to do, and the functions themselves.

What the metadata is called is private to PyTorch; see `direct_calls.py` for the versions.
"""

from collections.abc import Callable, Sequence
from inspect import unwrap
from typing import Any

import torch

from ..fx.boxed import Boxed

Call = Callable[..., Any]
PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_plain(metadata: Any, args: Sequence[Any]) -> bool:
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


def written_by(metadata: Any, args: Sequence[Any]) -> tuple[int, ...] | None:
    """The numbers of the inputs that the compiled graph itself writes and autograd is to know of: their versions are raised at each call. None
    where that cannot be told of inputs: those that share memory may have become one, and there are sizes among them."""
    if metadata.mutated_graph_handled_indices and not all(type(x) in PLAIN for x in args):
        return None
    return tuple(metadata.mutated_graph_handled_indices_seen_by_autograd)


def unwrapped(graph: Any) -> Boxed:
    """The function under a compiled graph of ours that was called before; one of Inductor's (`on_error`) is called as it is.

    In torch 2.11 it stays under the wrappers for tokens and random states, which have nothing to do where `is_plain`.
    """
    finished = getattr(unwrap(graph), "finished", None)  # see bascule/compiled/compiled_graph.py
    return graph if finished is None else finished()


def without_autocast(graph: Boxed) -> Boxed:
    """`graph`, whose operators were cast when it was traced."""
    from bascule.compat.operators.autograd_state import DisableAutocast

    def call(args: list[Any]) -> Sequence[Any]:
        with DisableAutocast():
            return graph(args)

    return call
