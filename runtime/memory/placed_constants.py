"""The tensors that a graph itself holds, as its kernels take them.

PyTorch's private function for leaving fake tensors is named here and nowhere else. Checked on torch 2.13.
"""

from collections.abc import Sequence

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .alignment import aligned


def placed(constants: Sequence[torch.Tensor], device: torch.device) -> tuple[torch.Tensor, ...]:
    """Each on `device` and aligned: itself where it is so already. Graphs are compiled where operators make fake tensors; these are real."""
    with unset_fake_temporarily():
        return tuple(aligned(constant.to(device)) for constant in constants)
