"""How a module is trained by several ranks: DDP's buckets, the units of FSDP2's `fully_shard`. Checked on torch 2.11 to 2.14."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

__all__ = ["Buckets", "ShardedUnit", "buckets_of", "sharded_units"]


@dataclass(frozen=True)
class Buckets:
    """DDP's: bytes at which the first one and the others are full, whether gradients lie in them, and what is not as by default, by its name."""

    ranks: int
    first: int
    most: int
    views: bool
    unusual: tuple[str, ...]


@dataclass(frozen=True)
class ShardedUnit:
    """Modules that `fully_shard` was given at once. Bytes are of the whole, with padding."""

    name: str
    ranks: int
    gathered: int
    scattered: int
    reshards: bool
    kept: int  # scatters whose input is kept
    unusual: tuple[str, ...]


def buckets_of(module: torch.nn.Module) -> Buckets | None:
    """Of the first `DistributedDataParallel` in `module`; None where there is none."""
    found: Any = next((each for each in module.modules() if isinstance(each, DistributedDataParallel)), None)
    if found is None:
        return None
    most = found.bucket_bytes_cap
    first = dist._DEFAULT_FIRST_BUCKET_BYTES if found.bucket_bytes_cap_default else most
    asked = (
        "find_unused_parameters",
        "bucket_bytes_cap_list",
        "batched_grad_copy",
        "mixed_precision",
        "_use_python_reducer",
    )
    unusual = tuple(name for name in asked if getattr(found, name, None))
    return Buckets(found.process_group.size(), min(first, most), most, found.gradient_as_bucket_view, unusual)


def sharded_units(module: torch.nn.Module) -> list[ShardedUnit]:
    """Those in `module`, in the order of its modules, that have parameters."""
    return [_unit(group) for group in _groups(module)]


def _groups(module: torch.nn.Module) -> Iterator[Any]:
    seen: set[int] = set()
    for each in module.modules():
        if not isinstance(each, FSDPModule):
            continue
        state: Any = each._get_fsdp_state()
        groups = getattr(state, "_fsdp_param_groups", None)
        for group in [state._fsdp_param_group] if groups is None else groups:
            if group is not None and id(group) not in seen:
                seen.add(id(group))
                yield group


def _unit(group: Any) -> ShardedUnit:
    ranks = group.mesh_info.shard_mesh_size
    gathered = scattered = 0
    for each in group.fsdp_params:
        numel = each._sharded_param_data.numel() * ranks
        gathered += numel * (each.param_dtype or each.orig_dtype).itemsize
        if each.sharded_param.requires_grad:
            scattered += numel * (each.reduce_dtype or each.param_dtype or each.orig_dtype).itemsize
    asked = {
        "replicas": group._is_hsdp,
        "unshard_async_op": group.unshard_async_op,
        "offloading": type(group.offload_policy).__name__ != "OffloadPolicy",
    }
    kept = getattr(group, "reduce_scatter_max_input_buffers", 1)
    unusual = tuple(name for name, is_so in asked.items() if is_so)
    return ShardedUnit(group._module_fqn or "", ranks, gathered, scattered, group._reshard_after_forward, kept, unusual)
