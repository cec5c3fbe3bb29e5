"""Settings of `torch._inductor.config` that are not followed here: whoever changes one is told, once a process.

That is every setting but those that are followed, so that none of a newer PyTorch's is ignored in silence.
"""

import warnings
from collections.abc import Iterator
from functools import cache

# Read by `options_for` and `bascule/cache/graph_entry.py`, beside what `options.INDUCTORS` and `options.PASSES` name.
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
}


def warn_about_settings(followed: set[str]) -> None:
    """Warns of each setting that is not as by default and not followed; `followed`: the names of those that are options here."""
    for name in _changed():
        if name not in followed and name not in FOLLOWED:
            _warn(name)


def _changed() -> Iterator[str]:
    from torch._inductor import config

    yield from (name for name in INSTEAD if getattr(config, name, None))  # `codegen_config` leaves functions out
    start = f"{config.__name__}."
    for line in config.codegen_config().splitlines():
        name = line.removeprefix(start).partition(" = ")[0]
        # PyTorch itself sets some to what they were.
        if line.startswith(start) and getattr(config, name) != config._config[name].default:
            yield name


@cache
def _warn(name: str) -> None:
    instead = INSTEAD.get(name, "it is Inductor's; bascule.list_options() has what there is here")
    warnings.warn(f"torch._inductor.config.{name} is set, and Bascule does not follow it: {instead}", stacklevel=3)
