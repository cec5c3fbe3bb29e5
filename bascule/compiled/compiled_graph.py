"""A compiled graph: what runs it, and what is known of it. Nothing here needs a compiler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from bascule.runtime.boxed import Boxed, boxed


class NotSerializable(Exception):
    """Why a compiled graph has no serialized form."""


UNKNOWN = NotSerializable("a graph that was not compiled, or that the disk cache does not take")


@dataclass(eq=False)
class CompiledGraph:
    """`call` runs it, with the boxed calling convention; so does this object, which who calls often takes it out of.

    `serialized`: its form in the disk cache or in a package, now or once it is there (`SerializedSplit`, or a whole one's); or why it has none.
    `constants`: the tensors that it holds, where they lie. `finish`: where machine code is still made, waits for that and returns what runs
    without a wait. `meanwhile`: runs it by PyTorch's operators until then (`bascule/tiers/`), if that was asked for.
    """

    call: Boxed
    serialized: Any = field(default=UNKNOWN, repr=False)
    constants: Sequence[torch.Tensor] = field(default=(), repr=False)
    finish: Callable[[], Boxed] | None = None
    meanwhile: Boxed | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        boxed(self)

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        return self.call(args)

    def finished(self) -> Boxed:
        """Waits for all its machine code, and returns what runs it then."""
        return self.call if self.finish is None else self.finish()

    def entry(self) -> Any:
        """Its serialized form. Raises `NotSerializable`."""
        if isinstance(self.serialized, NotSerializable):
            raise self.serialized
        return self.serialized

    def within(self, wrap: Callable[[Boxed], Boxed]) -> "CompiledGraph":
        """This graph, each way of running it in `wrap`."""
        meanwhile = None if self.meanwhile is None else wrap(self.meanwhile)
        finish = None if self.finish is None else lambda: wrap(self.finished())
        return replace(self, call=wrap(self.call), meanwhile=meanwhile, finish=finish)
