"""Calls that others see, which a backward does not make again: what they give is saved.

Which results a partitioner computes again depends on the sizes of this process's own tensors. A call made again by one process alone would wait
for the others for ever.
"""

from torch.fx import Graph
from torch.utils.checkpoint import CheckpointPolicy

from bascule.compat.operators.schemas import OpOverload

from ..fx.operator_effects import is_seen_outside
from ..fx_passes.seed_dropout import CHECKPOINTED


def save_seen_calls(graph: Graph) -> int:
    """Has a partitioner save what operators of a joint graph that others see (`frontend/fx/operator_effects.py`) give. Returns how many.

    Those in a region that the user checkpointed are computed again, as in eager; so are all with a memory budget of 0, which asks
    for that everywhere.
    """
    saved = 0
    for node in graph.nodes:
        seen = isinstance(node.target, OpOverload) and is_seen_outside(node.target)
        if seen and not any(key in node.meta for key in CHECKPOINTED):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
            saved += 1
    return saved
