"""Serialized decisions about CUDA graphs: a graph that is loaded is captured as it was where it was traced.

Source lines are numbers of nodes of Dynamo's graph in what is kept: who loads it has lines of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.fx import Node

from bascule.frontend.fx.stack_traces import location_of
from bascule.runtime.cudagraphs.recording import Direction, Input, Recording

from ..reporting.pool import Pool
from .capture_plan import Refusal

# A line of the user's, or the stack trace of an operator -> the number of the first node that has it.
Number = Callable[[str], int | None]
_NUMBERS = ("static", "written", "host", "sized", "integers")  # fields of a recording: tuples of inputs' numbers


@dataclass(frozen=True)
class SerializedReplay:
    """How a graph is recorded, or why it is not; `pool`: the memory that its recording takes."""

    what: Recording | Refusal
    pool: Pool | None = None

    def told(self, number: Number) -> dict[str, Any]:
        """As JSON. Stack traces of which no node is known are left out: messages name no line then."""

        def node(text: str | None) -> int | None:
            return None if text is None else number(text)

        what = self.what
        if isinstance(what, Refusal):
            return {"reason": what.reason, "place": node(what.location), "hint": what.hint}
        assert self.pool is not None
        inputs = [(x.name, node(x.stack_trace), node(x.written_at), node(x.place)) for x in what.inputs]
        return {
            "device": what.device,
            "inputs": inputs,
            "outputs": [node(x) for x in what.outputs],
            "gradients": list(what.gradients),
            "views": [list(view) for view in what.views],
            "numbers": {name: getattr(what, name) for name in _NUMBERS},
            "pool": asdict(self.pool),
        }

    @staticmethod
    def of(
        told: dict[str, Any], name: str, direction: Direction, nodes: Sequence[Node], constants: Sequence[torch.Tensor]
    ) -> "SerializedReplay":
        """Makes the object that `told` describes, for the graph `name`, which holds `constants`; `nodes`: those of Dynamo's graph here."""

        def trace(number: int | None) -> str | None:
            return None if number is None else nodes[number].meta.get("stack_trace")

        def place(number: int | None) -> str | None:
            return None if number is None else location_of(nodes[number])

        if "reason" in told:
            return SerializedReplay(Refusal(told["reason"], place(told["place"]), told["hint"]))
        recording = Recording(
            name=name,
            device=told["device"],
            direction=direction,
            inputs=tuple(Input(called, trace(a), trace(b), place(c)) for called, a, b, c in told["inputs"]),
            outputs=tuple(map(trace, told["outputs"])),
            gradients=tuple(told["gradients"]),
            views=tuple((output, number) for output, number in told["views"]),
            constants=tuple(constants),
            **{field: tuple(told["numbers"][field]) for field in _NUMBERS},
        )
        return SerializedReplay(recording, Pool(**told["pool"]))
