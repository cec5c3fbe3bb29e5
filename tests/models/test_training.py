"""Tens of steps of training: the losses stay eager's, also where freed memory is overwritten."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.training import MODELS, largest_difference

STEPS = 40
# Rounding grows from step to step; a wrong gradient shows after two.
TOLERANCE = 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_losses_stay_those_of_eager(name):
    assert largest_difference(name, STEPS) < TOLERANCE


def test_nothing_is_read_that_was_freed_or_never_written():
    """The C library fills memory with a pattern when it is handed out and when it is freed."""
    program = Path(__file__).parent / "training.py"
    places = os.pathsep.join(filter(None, [str(program.parents[2]), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "MALLOC_PERTURB_": "165", "PYTHONPATH": places}
    run = subprocess.run(
        [sys.executable, str(program), "GPT-2", str(STEPS)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert float(run.stdout.split()[-1]) < TOLERANCE
