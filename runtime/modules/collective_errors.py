"""Errors of collectives in a generated module: a note names the collective and its group, and says where the ranks of the group are.

How long a rank waits for the others is the time-out of the process group. What it raises then, as where a rank is gone, names neither.
"""

import ast
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from bascule.compat.operators.schemas import OpOverload

from .rank_states import states_of, tell

WAIT = "wait_tensor"
COMPUTE = ("aten", "prims", "prim", "bascule")
_SAME_FAILURE = 5.0  # seconds in which the ranks fail together


def ranks_note(lines: Sequence[str], number: int, namespace: Mapping[str, Any]) -> str | None:
    """A note on an error raised in line `number` of a module; None if that is no collective's."""
    call = _call_in(lines[number - 1], namespace)
    if call is not None and _waits(call, namespace):
        call = _awaited(call, lines[: number - 1], namespace)
    if call is None:
        return None
    operator, group = _operator(call, namespace), _group_of(call)
    name = operator._schema.name.partition("::")[2].removesuffix("_")  # of one that works in place
    about = name if group is None else f"{name} of the process group '{group}'"
    tell(f"failed in {about}", waits=True)
    return f"in the collective {about}{ranks_of_group(group)}"


def started_in(line: str, namespace: Mapping[str, Any]) -> str | None:
    """The name of the group of the collective that a line of a module starts; None where it starts none."""
    call = _call_in(line, namespace)
    if call is None or _waits(call, namespace):
        return None
    return _group_of(call)


def ranks_of_group(name: str | None) -> str:
    """Where the ranks of the group are, a line each."""
    if name is None or not torch.distributed.is_initialized():
        return ""
    from bascule.compat.tensors.process_groups import group_named

    try:
        found = states_of(group_named(name), time.time() - _SAME_FAILURE)
    except (RuntimeError, ValueError):  # the group is gone
        return ""
    own = torch.distributed.get_rank()
    told = {rank: "has told nothing" if state is None else state.told(name) for rank, state in found.items()}
    return "; its ranks last told:" + "".join(
        f"\n  rank {rank}{' (this one)' if rank == own else ''}: {text}" for rank, text in told.items()
    )


def _call_in(line: str, namespace: Mapping[str, Any]) -> ast.Call | None:
    """The call of a collective, or of what waits for one, in a line."""
    try:
        tree = ast.parse(line.strip())
    except SyntaxError:  # a part of a statement
        return None
    return next((node for node in ast.walk(tree) if isinstance(node, ast.Call) and _operator(node, namespace)), None)


def _operator(call: ast.Call, namespace: Mapping[str, Any]) -> Any:
    """The collective that `call` calls, else None."""
    found = namespace.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if not isinstance(found, OpOverload) or found.namespace in COMPUTE:
        return None
    return found if hasattr(getattr(torch.ops, found.namespace), WAIT) else None


def _waits(call: ast.Call, namespace: Mapping[str, Any]) -> bool:
    return _operator(call, namespace)._schema.name.endswith(f"::{WAIT}")


def _awaited(wait: ast.Call, lines: Sequence[str], namespace: Mapping[str, Any]) -> ast.Call | None:
    """The call whose result `wait` takes, as of the last line that gives it its name, through elements of lists, and other names; or the last
    that takes what `wait` takes, and works in place."""
    names = _names(wait.args)
    for line in reversed(lines):
        try:
            body = ast.parse(line.strip()).body
        except SyntaxError:
            continue
        for statement in body:
            if not isinstance(statement, ast.Expr | ast.Assign):
                continue
            call = _call_of(statement.value, namespace)
            if isinstance(statement, ast.Expr):
                if call is None or _waits(call, namespace) or not _names(call.args) & names:
                    continue
                return call
            if not _names(statement.targets) & names:
                continue
            if call is not None:
                return call
            names |= _names([statement.value])
    return None


def _names(values: Sequence[ast.expr]) -> set[str]:
    return {node.id for value in values for node in ast.walk(value) if isinstance(node, ast.Name)}


def _call_of(value: ast.expr, namespace: Mapping[str, Any]) -> ast.Call | None:
    """The outermost call in `value`, if it is of a collective, or waits for one."""
    call = next((x for x in ast.walk(value) if isinstance(x, ast.Call)), None)
    return call if call is not None and _operator(call, namespace) is not None else None


def _group_of(call: ast.Call) -> str | None:
    """The name of the group, which is the last text among the arguments."""
    texts = [x.value for x in call.args if isinstance(x, ast.Constant) and isinstance(x.value, str)]
    return texts[-1] if texts else None
