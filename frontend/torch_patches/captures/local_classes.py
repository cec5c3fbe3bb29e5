"""Classes that Dynamo defines anew for each value that it looks at, defined once.

`VariableBuilder._wrap` asks whether a value is of a class of Triton's. Where Triton is not there, it defines three classes that stand for
those, at each call: 14000 for a GPT-2 of 24 layers, a sixth of what its capture leaves to the garbage collector. Inside
`local_classes_once` the same code runs, and a class statement in it gives the class that it gave before. No value is ever of one of them.

The function is private to PyTorch. Checked on torch 2.11 to 2.14; one without class statements runs as ever.
"""

import builtins
from collections.abc import Callable
from functools import update_wrapper
from types import CodeType, FunctionType
from typing import Any

from bascule.compat.graphs.dynamo import VariableBuilder

from ..patch import attribute

_theirs = VariableBuilder._wrap


def with_classes_once(function: FunctionType) -> FunctionType:
    """`function`, whose class statements without bases and free names make their classes at its first call. It sees the builtins of now."""
    made: dict[tuple[CodeType, str], type] = {}

    def build_class(body: FunctionType, name: str, *bases: Any, **options: Any) -> Any:
        if bases or options or body.__closure__:
            return builtins.__build_class__(body, name, *bases, **options)
        key = body.__code__, name
        if key not in made:
            made[key] = builtins.__build_class__(body, name)
        return made[key]

    names = function.__globals__
    # A function takes its builtins from the globals that it is made with.
    theirs = names["__builtins__"]
    names["__builtins__"] = {**vars(builtins), "__build_class__": build_class}
    try:
        again = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    finally:
        names["__builtins__"] = theirs
    again.__kwdefaults__ = function.__kwdefaults__
    return update_wrapper(again, function)  # type: ignore[return-value]


_ours: Callable[..., Any] = with_classes_once(_theirs) if isinstance(_theirs, FunctionType) else _theirs
local_classes_once = attribute(VariableBuilder, _theirs.__name__, _theirs, _ours)
