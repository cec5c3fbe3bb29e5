"""Guards around MLIR's bindings: what would leave a dangling pointer raises, with the op that it is about.

Without them a pass that erases an op whose results are used ends the process later, in whatever looks at the user next.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..interrupts import pass_on
from ..ir.locations import source_of
from ..mlir import OperationBase, ir

_thread = threading.local()


class UsedError(ValueError):
    """An op or a block's argument that is used was to be erased, or an op left detached; `location` is its place, `user` what uses it."""

    def __init__(self, what: str, user: ir.Operation, location: str | None, *, done: str = "erased"):
        self.user, self.location = user, location
        at = source_of(user.location)
        super().__init__(
            f"{what} is {done} and '{user.name}'{f' at {at}' if at else ''} uses it: replace its uses first"
        )


@contextmanager
def watched() -> Iterator[None]:
    """Inside, what the callback of a walk raises in this thread reaches the caller of the walk as it is, not as MLIR's text of it. Raises
    `UsedError` at the end where an op that was detached stands nowhere and is used: it dies with the last handle."""
    before = getattr(_thread, "detached", None)
    detached = _thread.detached = list[ir.Operation]()
    try:
        yield
    finally:
        _thread.detached = before
    for op in filter(_stands_nowhere, detached):
        try:
            _refuse_used(op, "detached")
        except UsedError as error:
            ir.InsertionPoint(error.user).insert(op)  # else its user keeps a pointer to it
            raise


def _stands_nowhere(op: ir.Operation) -> bool:
    try:
        return op.parent is None
    except ValueError:  # it is detached
        return True
    except RuntimeError as error:  # it was erased since
        pass_on(error)
        return False


def install() -> None:
    """Sets the guards, once a process."""
    if OperationBase.erase is not _erase:
        _Unguarded.erase, OperationBase.erase = OperationBase.erase, _erase
        _Unguarded.walk, OperationBase.walk = OperationBase.walk, _walk
        _Unguarded.detach_from_parent, OperationBase.detach_from_parent = OperationBase.detach_from_parent, _detach
        _Unguarded.erase_argument, ir.Block.erase_argument = ir.Block.erase_argument, _erase_argument


class _Unguarded:
    """The bindings' own methods."""

    erase: Callable[..., None]
    walk: Callable[..., None]
    erase_argument: Callable[..., None]
    detach_from_parent: Callable[..., Any]


def _erase(self: Any) -> None:
    """Erases the operation, none of whose results may be used. Raises `UsedError`."""
    _refuse_used(self.operation, "erased")
    _Unguarded.erase(self)


def _detach(self: Any) -> Any:
    """Takes the operation out of its block; gives it back."""
    given = _Unguarded.detach_from_parent(self)
    detached = getattr(_thread, "detached", None)
    if detached is not None:
        detached.append(self.operation)
    return given


def _refuse_used(op: ir.Operation, done: str) -> None:
    for number, result in enumerate(op.results):
        for use in result.uses:
            raise UsedError(_named(op, number), use.owner.operation, source_of(op.location), done=done)


def _named(op: ir.Operation, number: int) -> str:
    return f"'{op.name}'" if len(op.results) == 1 else f"'{op.name}', result {number},"


def _erase_argument(self: Any, index: int) -> None:
    """Erases an argument of the block, which may not be used. Raises `UsedError`."""
    for use in self.arguments[index].uses:
        raise UsedError(f"argument {index}", use.owner.operation, source_of(use.owner.location))
    _Unguarded.erase_argument(self, index)


def _walk(self: Any, callback: Callable[[ir.Operation], Any], *args: Any, **kwargs: Any) -> None:
    """Walks the operations; `callback` gives a `WalkResult`."""
    if getattr(_thread, "detached", None) is None:
        _Unguarded.walk(self, callback, *args, **kwargs)
        return
    raised: Sequence[BaseException] = ()

    def visit(op: ir.Operation) -> Any:  # its frame tells `culprits` which op it was at
        nonlocal raised
        try:
            return callback(op)
        except BaseException as error:
            raised = (error,)
            return ir.WalkResult.INTERRUPT

    _Unguarded.walk(self, visit, *args, **kwargs)
    for error in raised:
        raise error
