"""The imports of generated modules, under names that stay when the files of this package move.

A module is loaded when a text first asks for one of its names: programs on a CPU need no native launcher.
"""

from importlib import import_module
from typing import Any

# Name in a generated module -> the module that has it, and its name there.
NAMES = {
    "begun_at": ("memory.allocation", "begun_at"),
    "check_finite": ("modules.output_checks", "check_finite"),
    "check_index": ("modules.index_errors", "check_index"),
    "check_layout": ("modules.output_checks", "check_layout"),
    "current_stream": ("kernels.cuda_driver", "current_stream"),
    "empty": ("memory.allocation", "empty"),
    "empty_cuda": ("memory.cuda_allocation", "empty"),
    "empty_kept": ("memory.result_block_pool", "empty_kept"),
    "empty_unwritten": ("memory.poisoned_memory", "empty"),
    "flat": ("modules.functional", "flat"),
    "functional": ("modules.functional", "functional"),
    "give_arena": ("memory.cpu_arena", "give_arena"),
    "kept_layouts": ("memory.cuda_arena_views", "kept_layouts"),
    "laid_out": ("memory.allocation", "laid_out"),
    "over": ("memory.donated_inputs", "over"),
    "realigned": ("memory.alignment", "realigned"),
    "saved_view": ("memory.returned_views", "saved_view"),
    "seeds_where_read": ("modules.dropout_seeds", "seeds_where_read"),
    "take_arena": ("memory.cpu_arena", "take_arena"),
    "take_arena_cuda": ("memory.cuda_allocation", "take_arena"),
    "take_arena_unwritten": ("memory.poisoned_memory", "take_arena"),
    "thread_count": ("kernels.threads", "thread_count"),
    "view": ("memory.allocation", "view"),
    "view_of": ("memory.returned_views", "view_of"),
    "wait_copied": ("modules.host_copies", "wait_copied"),
}


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, there = NAMES[name]
    return getattr(import_module(f"{__package__}.{home}"), there)
