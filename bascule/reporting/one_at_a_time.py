"""Reports that forget what Dynamo compiled, one at a time."""

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Told = TypeVar("Told")

_report = RLock()  # a function that is reported of may ask for a report


def one_at_a_time(function: Callable[Given, Told]) -> Callable[Given, Told]:
    """Has `function`, and the others that this decorates, run on one thread at a time: they call `torch.compiler.reset`, and code that another
    thread runs, or compiles, is gone by that: the process dies (PyTorch 2.11 to 2.14)."""

    @wraps(function)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Told:
        with _report:
            return function(*args, **kwargs)

    return run
