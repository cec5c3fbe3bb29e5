"""Triton kernels of the user's inside compiled functions. tests/gpu/test_cuda_user_kernels.py runs the same on a GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.entry.user_kernel_cases import CASES


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_as_eager(target):
    script = Path(__file__).with_name("user_kernels_process.py")
    done = subprocess.run([sys.executable, script, target], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
    for name in CASES:
        assert "a Triton kernel of the user's" in told[name] and "user_kernel_cases.py:" in told[name]
    if target == "cpu":
        assert "user_kernel_cases.py:42: no package can have a Triton kernel of the user's" in told["package"]
        assert told["package"].endswith("torch.library makes operators"), "nothing is left in the folder"
