"""The decompositions that a compile with some options applies: PyTorch's, users', and of operators that become kernels under these options."""

from collections.abc import Callable
from typing import Any

import torch

from bascule.frontend.aot.declared_decompositions import declared
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.aot.grouped_products import GroupedProducts

from ..options import Options
from ..pipelines import has_pass

GROUPED, SINCE = "expand-grouped-products", (8, 0)  # the pass, and the compute capability that it makes kernels for


def decompositions_for(options: Options) -> dict[Any, Callable]:
    """Operator -> its decomposition, for `aot_autograd`. Loads the rules."""

    def is_made_on(device: torch.device) -> bool:
        if options.target == "interpret":
            return device.type == "cpu"
        return options.target != "cpu" and device.type == "cuda" and torch.cuda.get_device_capability(device) >= SINCE

    tables = [GroupedProducts(is_made_on).table] if has_pass(options, GROUPED) else []
    return decomposition_table() | declared(tables)
