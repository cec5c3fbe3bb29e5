"""What the text of generated modules imports, under names that stay when the files of this package move.

A module is loaded when a text first asks for one of its names: programs on a CPU need no native launcher.
"""

from importlib import import_module
from typing import Any

# Name in a generated module -> the module that has it, and its name there.
NAMES = {
    "check_finite": ("checks", "check_finite"),
    "check_index": ("index_errors", "check_index"),
    "check_layout": ("checks", "check_layout"),
    "current_stream": ("cuda", "current_stream"),
    "empty": ("tensors", "empty"),
    "empty_cuda": ("device_memory", "empty"),
    "empty_kept": ("kept_blocks", "empty_kept"),
    "empty_unwritten": ("unwritten", "empty"),
    "flat": ("functional", "flat"),
    "functional": ("functional", "functional"),
    "give_arena": ("arenas", "give_arena"),
    "kept_layouts": ("kept_arenas", "kept_layouts"),
    "laid_out": ("tensors", "laid_out"),
    "over": ("spare_memory", "over"),
    "realigned": ("alignment", "realigned"),
    "take_arena": ("arenas", "take_arena"),
    "take_arena_cuda": ("device_memory", "take_arena"),
    "take_arena_unwritten": ("unwritten", "take_arena"),
    "thread_count": ("threads", "thread_count"),
    "view": ("tensors", "view"),
}


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, there = NAMES[name]
    return getattr(import_module(f"{__package__}.{home}"), there)
