"""Room for the frames of what a function calls.

Python keeps the frames of a thread in chunks of 16 KiB. A function that is called where a chunk is full takes the next one: memory that the
system maps, fills with zeros at the first touch, and takes back when the function returns. What a loop calls at such a depth costs 5 us more
each time. In the first step of a GPT-2 of 24 layers that were 70000 to 150000 calls, up to 0.8 s, as deep as the step's caller stood.

A function `with_room` takes a chunk of a MiB. Half of it is its own frame, of which nothing is touched; the other half has room for some
hundred frames below.

How frames are kept is private to CPython. Checked on 3.11; a version that keeps them elsewhere has a frame that is large, and no more.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import ParamSpec, TypeVar

SLOTS = 1 << 16  # of 8 bytes, that the frame says it needs: a chunk is of a power of two that holds it, and 8000 bytes

_P = ParamSpec("_P")
_R = TypeVar("_R")


def with_room(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function`, called with room for frames."""

    def roomy(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return function(*args, **kwargs)

    roomy.__code__ = roomy.__code__.replace(co_stacksize=SLOTS)
    return update_wrapper(roomy, function)
