"""Effects of operators beside their results, by what PyTorch says of them: which calls are made just as the program has them.

Of operators that are not PyTorch's own arithmetic nothing is known but what they take and make. One may exchange data with other processes, as
collectives, symmetric memory and a user's own operators over a process group do; each process has to issue those in the program's order, as
often as the program does, whatever the sizes of its own tensors.

Which operators were registered with an effect is private to PyTorch. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Sequence
from typing import Any

import torch

from bascule.compat.operators.custom_operators import EffectType, effect_of, register_effectful
from bascule.compat.operators.schemas import HigherOrderOperator, OpOverload

# Namespaces of operators that only compute, if nothing else is said of one.
COMPUTE = ("aten", "prims", "prim", "bascule")
WAIT = "wait_tensor"
HOST_COPIES = "bascule_host"  # namespace of copies to the host and back: `runtime/modules/host_copies.py`


def keeps_order(target: OpOverload) -> bool:
    """Whether calls of `target` keep the program's order among those of all such operators: it draws from a generator, returns nothing, was
    registered with an effect, or is not known to compute only."""
    return draws(target) or not target._schema.returns or is_seen_outside(target)


def draws(target: OpOverload) -> bool:
    """Whether `target` may draw numbers from a generator, which leaves it in another state."""
    return torch.Tag.nondeterministic_seeded in target.tags


def is_seen_outside(target: OpOverload) -> bool:
    """Whether others may see that `target` is called, so that each call is made, once."""
    return target.namespace not in COMPUTE or registered_effect(target) is not None


def registered_effect(target: OpOverload | HigherOrderOperator) -> object | None:
    """The effect with which `target` was registered in PyTorch; such calls keep their order."""
    return effect_of(target)


def register_ordered(target: OpOverload) -> Any:
    """Registers an effect by which calls of `target` keep their order; what it returns takes that back by `destroy()`."""
    return register_effectful(target, EffectType.ORDERED)


def only_begins(target: OpOverload) -> bool:
    """Whether `target` may read its operands and write its results until `wait_tensor` of its namespace has taken these."""
    namespace, _, name = target._schema.name.partition("::")
    return namespace not in COMPUTE and name != WAIT and hasattr(getattr(torch.ops, namespace), WAIT)


def group_ranks(target: OpOverload, arguments: Sequence[Any]) -> int | None:
    """How many ranks exchange data in a call of the collective `target`; None where that is not known in this process."""
    named = {parameter.name: argument for parameter, argument in zip(target._schema.arguments, arguments)}
    group = named.get("group_name")
    if not isinstance(group, str):
        return None
    # A process without collectives need not import what knows groups.
    from bascule.compat.tensors.process_groups import ranks_of

    return ranks_of(group)


def begun_in(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The calls of `graph` that only begin what `wait_tensor` ends, and that other ranks see: its collectives."""
    calls = (node for node in graph.nodes if isinstance(node.target, OpOverload) and only_begins(node.target))
    return [node for node in calls if not copies_to_host(node)]


def copies_to_host(node: torch.fx.Node) -> bool:
    """Whether a call copies a tensor to the host or back, or waits for such a copy."""
    return isinstance(node.target, OpOverload) and node.target.namespace == HOST_COPIES


def leaves_unwritten(target: OpOverload) -> bool:
    """Whether the result of `target` holds what its memory held before. No tag says so; ATen names just these operators "empty"."""
    return "empty" in target._schema.name.rpartition("::")[2].split("_")
