"""Inductor, for `on_error="inductor"`. Names private modules of PyTorch; checked on torch 2.13."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from bascule.frontend.fx.trace_context import fake_mode_of
from bascule.runtime.boxed import Boxed


def compile_with_inductor(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], *, is_backward: bool) -> Boxed:
    """`gm`, a functional graph of ATen operators, compiled by Inductor.

    It is traced again, with Inductor's own decompositions: Inductor does not take operators that these would have
    removed.
    """
    # Importing Inductor takes about a second, which only this path should cost.
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    mode = fake_mode_of(example_inputs)
    with mode, patch.object(mode, "allow_non_fake_inputs", True):  # constants of the graph are real tensors
        decomposed = make_fx(gm, select_decomp_table())(*example_inputs)
    return compile_fx_inner(decomposed, example_inputs, is_backward=is_backward)
