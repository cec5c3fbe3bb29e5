"""Process groups as a trace depends on them, as text: who is in each, and which of them this process is.

How PyTorch finds a group by its name, and what a `DTensor` is made of, is private to it. Checked on torch 2.11 to 2.14.
"""

import sys
from typing import Any

GROUPED = ("_c10d_functional",)  # namespaces of PyTorch's own operators that name a group


def told_of_mesh(value: Any) -> str | None:
    """A device mesh, with the groups of its dimensions and this process's place in it, a placement of PyTorch's own on one, or what a
    `DTensor` is: all that they decide. None for another object."""
    value = getattr(value, "real_obj", value)  # in a graph of Dynamo's
    kind = type(value)
    if not kind.__module__.startswith("torch.distributed.") or "torch.distributed.tensor" not in sys.modules:
        return None
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Partial, Replicate, Shard

    from bascule.compat.tensors.distributed import DTensorSpec

    if isinstance(value, DeviceMesh):
        groups = [group.group_name for group in value.get_all_groups()]
        told = (value.device_type, value.mesh.tolist(), value.mesh_dim_names, value.get_coordinate(), groups)
        return f"mesh {told} {processes()}"
    if kind in (Shard, Replicate, Partial):  # others hold more than they say
        return f"{kind.__qualname__} {value!r}"
    if kind is DTensorSpec:
        placements = [told_of_mesh(placement) for placement in value.placements]
        if None in placements:
            return None
        return f"spec {told_of_mesh(value.mesh)} {placements} {value.tensor_meta}"
    return None


def processes() -> str:
    """All groups that this process is in: name, backend, global ranks; and its own global rank. Operators name their groups."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return "no process group"
    known = dist.distributed_c10d._world.pg_names
    groups = sorted(
        (name, dist.get_backend(group), dist.get_process_group_ranks(group)) for group, name in known.items()
    )
    return f"rank {dist.get_rank()} groups {groups}"
