"""The calls that PyTorch's operator database says an operator refuses, compiled against eager."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map

from tests.operators.opinfo import DEVICE, duplicate, operators


@dataclass(frozen=True)
class Refused:
    """One call: the operator on arguments with an error, given anew at each."""

    operator: str
    number: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.operator} {self.number}"

    @property
    def writes_out(self) -> bool:
        """Whether results are written to tensors that the caller gives."""
        return "out" in self.arguments[2]

    def run(self, function: Callable[..., Any]) -> tuple[Exception | None, list[torch.Tensor]]:
        """The exception that it raises, and its tensors after the call."""
        first, args, kwargs = tree_map(lambda x: duplicate(x) if isinstance(x, torch.Tensor) else x, self.arguments)
        tensors: list[torch.Tensor] = []
        tree_map(lambda x: tensors.append(x) if isinstance(x, torch.Tensor) else None, (first, args, kwargs))
        try:
            function(first, *args, **kwargs)
        except Exception as error:  # is what is compared
            return error, tensors
        return None, tensors


def refused(names: list[str] | None = None) -> Iterator[Refused]:
    """The calls of all operators, or of `names`."""
    for name, entry in operators().items():
        if entry.error_inputs_func is None or (names is not None and name not in names):
            continue
        torch.manual_seed(0)
        # Not `error_inputs`, which looks through the sources of the whole stack for a test at each: 0.15 s.
        for number, found in enumerate(entry.error_inputs_func(entry, DEVICE)):
            sample = found.sample_input
            yield Refused(name, number, entry.op, (sample.input, sample.args, sample.kwargs))


def compiled(function: Callable[..., Any], backend: str) -> Callable[..., Any]:
    options = {"options": {"on_error": "raise"}} if backend == "bascule" else {}
    torch._dynamo.reset()
    return torch.compile(lambda first, *args, **kwargs: function(first, *args, **kwargs), backend=backend, **options)


def difference(call: Refused) -> str | None:
    """The difference of compiled code from eager; None where it does the same, or what `aot_eager` does."""
    wanted, left = call.run(call.function)
    got, after = call.run(compiled(call.function, "bascule"))
    if wanted is None:
        return None if got is None else f"{call}: raises {got!r}, eager does not"
    if got is not None and isinstance(got, type(wanted)):
        return _changed(call, left, after)
    theirs, _ = call.run(compiled(call.function, "aot_eager"))
    if got is not None and type(got) is type(theirs):
        return _changed(call, left, after)
    if theirs is None and call.writes_out:  # AOTAutograd makes a function of it, and copies with a cast
        return None
    return f"{call}: {got!r}, eager {wanted!r}"


def _changed(call: Refused, eager: list[torch.Tensor], after: list[torch.Tensor]) -> str | None:
    for x, y in zip(eager, after, strict=True):
        same = x.shape == y.shape and x.dtype == y.dtype
        numbers = x.layout == torch.strided and x.device.type != "meta"
        if not same or (numbers and not torch.equal(x.nan_to_num(), y.nan_to_num())):
            return f"{call}: an argument is changed, and not in eager"
    return None
