"""Changes of PyTorch's own tables, in force while anybody traces."""

from collections.abc import Callable
from threading import Lock
from typing import Any


class Patch:
    """A context manager for several threads: a change that is in force from when the first enters until the last has left.

    `make` is called at each entry and leaves alone what is changed already; `undo` puts back all of it.
    """

    def __init__(self, make: Callable[[], None], undo: Callable[[], None]) -> None:
        self._make, self._undo = make, undo
        self._lock, self._within = Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            self._make()
            self._within += 1

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0:
                self._undo()


def together(
    *patches: Patch, before: Callable[[], None] = lambda: None, after: Callable[[], None] = lambda: None
) -> Patch:
    """Several as one; `before` is called at each entry, `after` once they are undone."""

    def make() -> None:
        before()
        for patch in patches:
            patch._make()

    def undo() -> None:
        for patch in patches:
            patch._undo()
        after()

    return Patch(make, undo)


def attribute(owner: Any, name: str, theirs: Any, ours: Any) -> Patch:
    """`ours` for the attribute `name`, which `owner` itself has, where it is `theirs`: what somebody else put there stays. Nothing where
    `theirs` is None: there is none."""

    def put(new: Any, old: Any) -> None:
        if theirs is not None and vars(owner).get(name) is old:
            setattr(owner, name, new)

    return Patch(lambda: put(ours, theirs), lambda: put(theirs, ours))


def python_kernel(operator: Any, key: Any, ours: Callable) -> Patch:
    """`ours` for the kernel in Python that an overload has for a dispatch key, in place of PyTorch's, if it has one."""
    theirs = {each: kernel for each, kernel in operator.py_kernels.items() if each == key}

    def put(kernels: dict[Any, Callable]) -> None:
        operator.py_kernels.pop(key, None)
        operator.py_kernels.update(kernels)
        operator._dispatch_cache.clear()

    return Patch(lambda: put({key: ours}), lambda: put(theirs))


def missing(owner: Any, name: str, ours: Any) -> Patch:
    """`ours` for the attribute `name`, which `owner` lacks. Nothing where it has one."""

    def make() -> None:
        if not hasattr(owner, name):
            setattr(owner, name, ours)

    def undo() -> None:
        if vars(owner).get(name) is ours:
            delattr(owner, name)

    return Patch(make, undo)
