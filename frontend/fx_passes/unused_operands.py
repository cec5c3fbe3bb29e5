"""Operands that an operator does not look at, taken from it before the joint graph is split.

What is saved for a backward must not change until then: a batch norm in training writes its running statistics at each call, and its
backward has them among its operands only for evaluation.
"""

import torch
from torch.fx import Graph

BACKWARD = torch.ops.aten.native_batch_norm_backward.default
STATISTICS, TRAINING = (3, 4), 7  # the operands: running mean and variance, and whether they are of no use


def drop_unused_operands(graph: Graph) -> None:
    """Gives None for the running statistics to each backward of a batch norm in training."""
    for node in graph.find_nodes(op="call_function", target=BACKWARD):
        if node.args[TRAINING]:
            for number in STATISTICS:
                node.update_arg(number, None)
