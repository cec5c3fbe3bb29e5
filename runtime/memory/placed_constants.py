"""The tensors that a graph itself holds, as its kernels take them."""

from collections.abc import Sequence

import torch

from bascule.compat.tensors.fake_tensors import unset_fake_temporarily

from .alignment import aligned


def placed(constants: Sequence[torch.Tensor], device: torch.device) -> tuple[torch.Tensor, ...]:
    """Each on `device` and aligned: itself where it is so already. Graphs are compiled where operators make fake tensors; these are real."""
    with unset_fake_temporarily():
        return tuple(aligned(constant.to(device)) for constant in constants)
