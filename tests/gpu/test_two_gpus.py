"""Training on two GPUs that NCCL connects: losses are eager's; a rank that is lost, fails or is late is told of, and hangs nobody."""

import json
import subprocess
import sys

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


@pytest.mark.parametrize(("way", "begins"), [("ddp", "DDP"), ("fsdp2", "FSDP2"), ("tp", "compiled graphs")])
def test_collectives_are_begun_as_predicted(way, begins, tmp_path):
    """And the benchmark knows when the host launched what runs: it tells whose the exposed time is."""
    path = tmp_path / "ranks.json"
    command = (
        f"-m torch.distributed.run --nproc-per-node=2 --standalone -m benchmarks.ranks --tiny --steps=2 --json={path}"
    )
    chosen = ["--models=llama", f"--ways={way}", "--compilers=bascule"]
    done = subprocess.run([sys.executable, *command.split(), *chosen], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    (row,) = json.loads(path.read_text())["rows"]
    told = row["bascule"]
    assert told["predicted_step"]["way"] == begins and told["predicted_step"]["as_begun"]
    assert 0 <= told["host_late_ms"] <= told["exposed_ms"] + 1e-6
