"""The memory that one graph's recording has in the pool of CUDA graphs, as `explain` and the log tell it."""

from dataclasses import dataclass

from .graph_summary import grouped


@dataclass(frozen=True)
class Pool:
    """The bytes that a graph's recording has in the pool.

    `arena`: intermediates, only while it runs; an expression of the symbols where sizes are dynamic. `inputs`: places of inputs that are copied,
    only while it runs. `outputs`: until the step's end; of dynamic sizes, inputs and outputs as they were seen first. `large`: what tensors of
    more than `pool_size.SMALL` bytes surely have of arena and outputs at one time (an input that an earlier recording made is not copied); 0
    where sizes are dynamic, and of a backward, which frees what its forward has saved while it makes its own. With a memory budget, what forward
    and backward need.
    """

    arena: str
    inputs: int
    outputs: int
    large: int = 0

    @property
    def running(self) -> int:
        """All of it, as far as it is a number."""
        return (int(self.arena) if self.arena.isdigit() else 0) + self.inputs + self.outputs

    def __str__(self) -> str:
        return f"an arena of {grouped(self.arena)} bytes, {self.inputs:,} bytes of copied inputs and {self.outputs:,} of outputs"
