"""The keys of both caches: a digest of what decides a result, the options among it."""

import json
from collections.abc import Collection
from hashlib import sha256
from typing import Any

from ..options import Options

# Options that change nothing of what is traced or compiled, or that leave the cache unused.
_UNSEEN = {
    *("direct_calls", "trace_cache", "on_error", "dump", "dump_inputs", "replay", "verify", "print_fx_passes", "cache"),
    *("cudagraph_shapes", "cudagraph_bytes", "tiers"),
    "hooks",  # an object, whose uuid stands for it: `graph_key.users_code`
}


def seen(options: Options, unseen: Collection[str]) -> dict[str, Any]:
    """The options that a key covers: without `unseen`, what the one cache does not need."""
    return {name: value for name, value in vars(options).items() if name not in _UNSEEN and name not in unseen}


def digest(conditions: list[Any], text: str) -> str:
    return sha256(f"{json.dumps(conditions, sort_keys=True, default=str)}\n{text}".encode()).hexdigest()
