"""Settings of `torch._inductor.config` that say how to compile and are not followed here: whoever sets one is told, once a process."""

import warnings
from functools import cache

# Setting -> what there is instead. The defaults of all are empty.
UNFOLLOWED = {
    "pre_grad_fusion_options": "the option 'pre_grad_custom_pass' takes a function that changes the graph",
    "post_grad_fusion_options": "the option 'post_grad_custom_pre_pass' takes a function that changes the graph",
    "add_pre_grad_passes": "the option 'pre_grad_custom_pass' takes a function that changes the graph",
    "remove_pre_grad_passes": "there are no such passes here",
    "_pre_fusion_custom_pass": "the option 'pipeline' takes passes over the IR (docs/writing-a-pass.md)",
    "_post_fusion_custom_pass": "the option 'pipeline' takes passes over the IR (docs/writing-a-pass.md)",
    "custom_should_partition_ops": "operators that cannot be recorded are left out of CUDA graphs by themselves",
    "fallback_by_default": "operators are compiled where there is a rule for them",
    "selective_decompose": "the decompositions are those of this compiler",
}


def warn_about_settings() -> None:
    """Warns of each of these settings that is on."""
    from torch._inductor import config

    for name in UNFOLLOWED:
        if getattr(config, name, None):
            _warn(name)


@cache
def _warn(name: str) -> None:
    warnings.warn(
        f"torch._inductor.config.{name} is set, and Bascule does not follow it: {UNFOLLOWED[name]}", stacklevel=3
    )
