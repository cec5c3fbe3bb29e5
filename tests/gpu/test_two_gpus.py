"""Data parallel training on two GPUs that NCCL connects: losses are eager's."""

import pytest
import torch
from torch.testing import assert_close

from tests.wrapper.data_parallel import WAYS, in_two_processes


@pytest.mark.parametrize("how", WAYS)
def test_two_gpus_train_as_eager(how):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    for told in in_two_processes(how, "cuda"):
        assert_close(told["compiled"], told["eager"], rtol=1e-4, atol=1e-5)
        assert told["graphs"].get("compiled", 0) >= 2 and "fallback" not in told["graphs"]
