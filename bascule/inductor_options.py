"""Inductor's names: options of its, as scripts written for it give them to `torch.compile`, and settings of Inductor's `config`.

Of the settings, all but those that are followed are warned about, so that none of a newer PyTorch's is ignored in silence.
"""

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

import torch

from .errors import UserError

# Settings of Inductor's `config` -> what they mean, where they are on.
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
    """Whether Inductor's `config` has a setting `name`; `-` may stand for `_`, as there."""
    return _default(name.replace("-", "_")) is not _ABSENT


def followed_as(name: str, value: Any, defaults: Mapping[str, Any]) -> tuple[str | None, Any]:
    """The option, and its value, that Inductor's setting `name` is here. None, after one warning a process, for one that has no like.

    `defaults`: those of our options. Raises `UserError` for a value that the setting does not take.
    """
    setting = name.replace("-", "_")
    if setting not in _AS_OPTIONS:
        default = _default(setting)
        if type(value) is not type(default) or value != default:  # of one type: an array compares by elements
            _warn_of_option(name)
        return None, None
    option, on = _AS_OPTIONS[setting]
    if not isinstance(value, bool):
        raise UserError(f"takes bool, got {value!r}", location=f"option '{name}'")
    return option, on if value else (not on if isinstance(on, bool) else defaults[option])


@cache
def _warn_of_option(name: str) -> None:
    warnings.warn(
        f"the option '{name}' is Inductor's, and Bascule does not follow it; bascule.list_options() has what it does",
        stacklevel=3,
    )


def _default(setting: str) -> Any:
    from .compat.inductor.settings import config

    try:
        return attrgetter(setting)(config)
    except AttributeError:
        return _ABSENT


# Read by `options_for` and `bascule/cache/graph_entry.py`, beside what `INDUCTORS` and `options.PASSES` name.
FOLLOWED = {"assert_indirect_indexing", "size_asserts", "trace.enabled", "force_disable_caches"}

# Setting -> what there is instead.
INSTEAD = {
    "pre_grad_fusion_options": "the option 'pre_grad_custom_pass' takes a function that changes the graph",
    "post_grad_fusion_options": "the option 'post_grad_custom_pre_pass' takes a function that changes the graph",
    "add_pre_grad_passes": "the option 'pre_grad_custom_pass' takes a function that changes the graph",
    "remove_pre_grad_passes": "there are no such passes here",
    "_pre_fusion_custom_pass": "the option 'pipeline' takes passes over the IR (docs/writing-a-pass.md)",
    "_post_fusion_custom_pass": "the option 'pipeline' takes passes over the IR (docs/writing-a-pass.md)",
    "custom_should_partition_ops": "operators that cannot be recorded are left out of CUDA graphs by themselves",
    "save_args": "the backend 'bascule_dump' with options={'data': True} writes graphs and their inputs down",
    "fallback_by_default": "operators are compiled where there is a rule for them",
    "selective_decompose": "the decompositions are those of this compiler",
    "deterministic": "torch.use_deterministic_algorithms(True) is followed",
}


def warn_about_settings(followed: set[str]) -> None:
    """Warns of each setting that is not as by default and not followed; `followed`: the names of those that are options here."""
    for name in _changed():
        if name not in followed and name not in FOLLOWED and not _is_torchs(name):
            _warn_of_setting(name)


def _is_torchs(name: str) -> bool:
    """Whether a function of PyTorch's that is followed has changed the setting `name`, beside its own."""
    return name == "deterministic" and torch.are_deterministic_algorithms_enabled()


def _changed() -> Iterator[str]:
    from .compat.inductor.settings import config

    yield from (name for name in INSTEAD if getattr(config, name, None))  # `codegen_config` leaves functions out
    start = f"{config.__name__}."
    for line in config.codegen_config().splitlines():
        name = line.removeprefix(start).partition(" = ")[0]
        # PyTorch itself sets some to what they were.
        if line.startswith(start) and getattr(config, name) != config._config[name].default:
            yield name


@cache
def _warn_of_setting(name: str) -> None:
    instead = INSTEAD.get(name, "it is Inductor's; bascule.list_options() has what there is here")
    warnings.warn(f"Inductor's config.{name} is set, and Bascule does not follow it: {instead}", stacklevel=3)
