"""Training on two GPUs that NCCL connects: losses are eager's; a rank that is lost, fails or is late is told of, and hangs nobody."""

import pytest
import torch
from torch.testing import assert_close

from tests.wrapper import faulty_ranks
from tests.wrapper.data_parallel import WAYS, in_two_processes


@pytest.fixture(autouse=True)
def two_gpus():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")


@pytest.mark.parametrize("how", WAYS)
def test_two_gpus_train_as_eager(how):
    for told in in_two_processes(how, "cuda"):
        assert_close(told["compiled"], told["eager"], rtol=1e-4, atol=1e-5)
        assert told["graphs"].get("compiled", 0) >= 2 and "fallback" not in told["graphs"]


@pytest.mark.parametrize("how", faulty_ranks.WAYS)
def test_a_fault_of_one_rank_is_told_by_the_other(how):
    faulty_ranks.check(how, "cuda")
