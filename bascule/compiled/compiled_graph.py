"""A compiled graph: what runs it, and what is known of it. Nothing here needs a compiler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bascule.runtime.boxed import Boxed, boxed


class NotKept(Exception):
    """Why what a graph came to is not kept."""


_UNKNOWN = NotKept("a graph that was not compiled, or that the disk cache does not take")


@dataclass(eq=False)
class CompiledGraph:
    """`call` runs it, with the boxed calling convention; so does this object, which who calls often takes it out of.

    `kept`: as what the disk cache, or a package, has it or will have it (`KeptChain`, or a whole one); or why it does not. `constants`: the
    tensors that it holds, where they lie. `finish`: where machine code is still made, waits for that and returns what runs without a wait.
    """

    call: Boxed
    kept: Any = field(default=_UNKNOWN, repr=False)
    constants: Sequence[torch.Tensor] = field(default=(), repr=False)
    finish: Callable[[], Boxed] | None = None

    def __post_init__(self) -> None:
        boxed(self)

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        return self.call(args)

    def finished(self) -> Boxed:
        """The bare function, once all machine code is there; waits for that."""
        return self.call if self.finish is None else self.finish()

    def entry(self) -> Any:
        """Its form in the cache. Raises `NotKept`."""
        if isinstance(self.kept, NotKept):
            raise self.kept
        return self.kept
