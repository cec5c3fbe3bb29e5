"""A slice of the soak, with the seeds of programs that were wrong once. All of it: `python tests/wrapper/soak.py`."""

import harness
import pytest
import soak

FOUND = [0, 41094]  # two results in one place were one tensor; a `cat` returned did not share memory with its views
SLICE = 15


@pytest.mark.parametrize("seed", FOUND)
def test_found_once(seed):
    program = soak.write(seed)
    assert soak.check(harness.Case("", program.function(), program.inputs, grad=program.train, tolerance=1e-5))


@pytest.mark.parametrize("first", [5000, soak.WIDE])
def test_a_slice(first):
    for program, case in soak.programs(first, SLICE):
        try:
            soak.check(case)
        except AssertionError as error:
            raise AssertionError(f"seed {program.seed}:\n{program.text}") from error
