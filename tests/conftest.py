"""Tests see what the compiler does: nothing comes from the disk cache of the machine, unless a test gives it a directory.

Each test draws the same numbers in every run and in any order; fresh ones come from `make soak`.
"""

import os
import random

import pytest
import torch

os.environ["BASCULE_CACHE_DIR"] = ""


@pytest.fixture(autouse=True)
def same_numbers_in_every_run():
    random.seed(0)
    torch.manual_seed(0)
