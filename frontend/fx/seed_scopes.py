"""Operators around what draws random numbers: in between, PyTorch's generators go by a seed that the graph has.

What lies between them draws the same numbers wherever it runs again from the same seed, by whatever operators, the user's own too.
"""

from collections.abc import Sequence
from functools import cache

import torch

from bascule.compat.operators.custom_operators import register_fake as register

STATE_BYTES = {"cpu": 5056, "cuda": 16}  # of a generator's state
STEP = 0x61C88646  # from a stream's seed to that of the next, far from the steps of a loop's seeds

_library = torch.library.Library("bascule", "FRAGMENT")
_library.define(
    "begin_draws(Tensor seed, int number, str[] devices) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,)
)
_library.define("end_draws(Tensor states, str[] devices) -> ()")


@torch.library.impl(_library, "begin_draws", "CompositeExplicitAutograd")
def _begin_draws(seed: torch.Tensor, number: int, devices: Sequence[str]) -> torch.Tensor:
    """Gives the generators of `devices` stream `number` of `seed`, int64 of no dimensions; returns their states before, one after the other."""
    generators = [*map(_generator, devices)]
    states = torch.cat([generator.get_state() for generator in generators])
    for generator in generators:
        generator.manual_seed(int(seed.item()) + number * STEP)
    return states


@torch.library.impl(_library, "end_draws", "CompositeExplicitAutograd")
def _end_draws(states: torch.Tensor, devices: Sequence[str]) -> None:
    """Gives the generators of `devices` their states back."""
    for device, state in zip(devices, states.split(_sizes(devices)), strict=True):
        _generator(device).set_state(state.clone())


def _generator(device: str) -> torch.Generator:
    at = torch.device(device)
    if at.type == "cpu":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if at.index is None else at.index]


def _sizes(devices: Sequence[str]) -> list[int]:
    return [STATE_BYTES[torch.device(device).type] for device in devices]


@cache
def register_fake() -> None:
    """Lets them be traced."""
    register(
        "bascule::begin_draws",
        lambda seed, number, devices: torch.empty(sum(_sizes(devices)), dtype=torch.uint8),
        _library,
    )
    register("bascule::end_draws", lambda states, devices: None, _library)
    torch.fx.node.has_side_effect(torch.ops.bascule.end_draws.default)
