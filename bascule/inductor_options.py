"""Options that are named as Inductor names its own, as scripts written for it give them to `torch.compile`."""

import warnings
from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Any

from .errors import UserError

# Settings of `torch._inductor.config` -> what they mean, where they are on.
INDUCTORS = {
    "freezing": ("freezing", True),
    "fallback_random": ("random", "eager"),
    "emulate_precision_casts": ("numerics", "eager"),
    "max_autotune": ("max_autotune", True),
    "triton.cudagraphs": ("cudagraphs", True),
    "nan_asserts": ("nan_asserts", True),
    "profiler_mark_wrapper_call": ("profiler_mark_wrapper_call", True),
}
# As an option, not as a setting: it is on by default there, and `options_for` asks where it is off.
_AS_OPTIONS = {**INDUCTORS, "assert_indirect_indexing": ("index_asserts", True)}
_ABSENT = object()


def is_inductors(name: str) -> bool:
    """Whether `torch._inductor.config` has a setting `name`; `-` may stand for `_`, as there."""
    return _default(name.replace("-", "_")) is not _ABSENT


def followed_as(name: str, value: Any, defaults: Mapping[str, Any]) -> tuple[str | None, Any]:
    """The option, and its value, that Inductor's setting `name` is here. None, after one warning a process, for one that has no like.

    `defaults`: those of our options. Raises `UserError` for a value that the setting does not take.
    """
    setting = name.replace("-", "_")
    if setting not in _AS_OPTIONS:
        if value != _default(setting):
            _warn(name)
        return None, None
    option, on = _AS_OPTIONS[setting]
    if not isinstance(value, bool):
        raise UserError(f"takes bool, got {value!r}", location=f"option '{name}'")
    return option, on if value else (not on if isinstance(on, bool) else defaults[option])


@cache
def _warn(name: str) -> None:
    warnings.warn(
        f"the option '{name}' is Inductor's, and Bascule does not follow it; bascule.list_options() has what it does",
        stacklevel=3,
    )


def _default(setting: str) -> Any:
    from torch._inductor import config

    try:
        return attrgetter(setting)(config)
    except AttributeError:
        return _ABSENT
