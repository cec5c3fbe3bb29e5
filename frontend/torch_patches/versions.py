"""The version of PyTorch that runs, beside those that a use of its private parts was checked with."""

from collections.abc import Sequence

import torch

Version = tuple[int, ...]  # major, minor


def running() -> Version:
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def is_checked(versions: Sequence[Version]) -> bool:
    """Whether the version that runs is one from the first of `versions` to the last."""
    return versions[0] <= running() <= versions[-1]
