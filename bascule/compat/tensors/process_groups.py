"""Process groups by name: the store by which ranks met, time-outs, collectives begun. Checked on torch 2.11 to 2.14."""

import torch
from torch.distributed.distributed_c10d import _get_default_store, _resolve_process_group, _world

default_store = _get_default_store
group_named = _resolve_process_group

__all__ = ["collectives_begun", "default_store", "group_named", "ranks_of", "timeout_of"]


def ranks_of(name: str) -> int | None:
    """How many ranks the group `name` has; None where this process has no such group."""
    return next((group.size() for group, known in _world.pg_names.items() if known == name), None)


def timeout_of(name: str) -> float | None:
    """Seconds that a collective of the group waits for its ranks; None where the group is gone, or nothing of it is on a GPU."""
    group = next((group for group, known in _world.pg_names.items() if known == name), None)
    if group is None:
        return None
    try:
        backend = group._get_backend(torch.device("cuda"))
    except RuntimeError as error:
        assert error.__traceback__ is not None
        if error.__traceback__.tb_next is not None:  # of a signal's handler, for the call is native
            raise
        return None
    options = getattr(backend, "options", None)
    return None if options is None else options._timeout.total_seconds()


def collectives_begun() -> dict[str, int]:
    """How many collectives this rank has begun, by the name of the group; of those whose backend counts them."""
    found: dict[str, int] = {}
    for group, name in list(_world.pg_names.items()):
        try:
            found[name] = group._get_sequence_number_for_group()
        except RuntimeError as error:
            assert error.__traceback__ is not None
            if (
                error.__traceback__.tb_next is not None
            ):  # of a frame below this one: a signal's handler, for the call is native
                raise
    return found
