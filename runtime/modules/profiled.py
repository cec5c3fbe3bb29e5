"""Compiled graphs, and the kernels of a CPU, under their names in `torch.profiler`: a GPU's kernels have theirs from the driver."""

from collections.abc import Callable
from hashlib import sha256
from types import FunctionType
from typing import Any

from torch.profiler import record_function

RANGE = "bascule graph "


def range_of(source: str) -> str:
    """The name of the range around a run of the module with this text."""
    return RANGE + sha256(source.encode()).hexdigest()[:16]


def with_ranges(
    run: Callable[..., Any], namespace: dict[str, Any], kernels: dict[str, Callable[..., Any]]
) -> Callable[..., Any]:
    """`run`, a function of the module `namespace`, with a range of the profiler's around each call of one of `kernels`, of its name."""
    assert isinstance(run, FunctionType)  # a generated module defines it
    names = {id(function): name for name, function in kernels.items()}
    ranged = {variable: _ranged(names[id(value)], value) for variable, value in namespace.items() if id(value) in names}
    return FunctionType(run.__code__, namespace | ranged, run.__name__)


def _ranged(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        with record_function(name):
            return kernel(*given)

    return call
