"""The kernels of a CPU under their names in `torch.profiler`: a GPU's have theirs from the driver."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch.profiler import record_function


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
