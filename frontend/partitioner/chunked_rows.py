"""A step whose largest product is made, read and let go by chunks of its rows: the logits of a language model, and their gradient.

The pass `chunk-rows` decides whether that can be, on the programs that come of a choice. Here is a guess of what it does, for predictions: the
product, and what is computed of it until other products take it, have the memory of a chunk, and are not saved.
"""

from dataclasses import replace

from torch.fx import Node
from torch.utils.flop_counter import flop_registry

from .training_step import Step

WORTH = 0.05  # of the peak: a smaller product is left whole
ALIKE = 0.5  # of the product's elements: what is computed of it and has fewer is no part of it


def by_chunks(step: Step, peak: int) -> Step | None:
    """`step` so; None where its largest product is small beside `peak`."""
    products = [node for node in step.forward if is_matrix_product(node)]
    largest = max(products, key=step.whole, default=None)
    if largest is None or step.whole(largest) < WORTH * peak:
        return None
    least = int(ALIKE * step.whole(largest))
    returned = {step.root(node) for node in (*step.forward_outputs, *step.backward_outputs)}  # these stay whole
    made = frozenset(node for node in _made_of(step, largest) if step.root(node) not in returned)
    return replace(step, chunked=made, chunk_bytes=least) if made else None


def is_matrix_product(node: Node) -> bool:
    """Whether a call multiplies two matrices: its result has a row for each of one's rows."""
    value = node.meta.get("val")
    known = getattr(node.target, "overloadpacket", None) in flop_registry
    return known and getattr(value, "ndim", 0) == 2


def _made_of(step: Step, product: Node) -> set[Node]:
    """The product, and what is computed of it, up to other products, and is about as large."""
    elements = product.meta["val"].numel()
    found, todo = set[Node](), [product]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [user for user in node.users if step.fuses(user) and _elements(user) >= ALIKE * elements]
    return found


def _elements(node: Node) -> float:
    value = node.meta.get("val")
    return value.numel() if hasattr(value, "numel") else 0
