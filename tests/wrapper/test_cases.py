"""Every wrapper case: what a user sees of the compiled call is what eager shows.

On another device: `BASCULE_TEST_DEVICE=cuda python -m pytest tests/wrapper/test_cases.py`.
"""

import pytest

from tests.wrapper import (
    cases_aliasing,
    cases_calls,
    cases_gradients,
    cases_modules,
    cases_mutation,
    cases_optimizers,
    cases_subclasses,
)
from tests.wrapper.harness import check_case, check_program

CASES = {"mutation": cases_mutation, "aliasing": cases_aliasing, "gradients": cases_gradients}
PROGRAMS = {
    "gradients": cases_gradients,
    "modules": cases_modules,
    "calls": cases_calls,
    "optimizers": cases_optimizers,
    "subclasses": cases_subclasses,
}


def named(groups, table):
    pairs = [(group, case) for group, module in groups.items() for case in getattr(module, table)]
    return [pytest.param(case, id=f"{group}: {case.name}") for group, case in pairs]


@pytest.mark.parametrize("case", named(CASES, "CASES"))
def test_call(case):
    check_case(case)


@pytest.mark.parametrize("program", named(PROGRAMS, "PROGRAMS"))
def test_program(program):
    check_program(program)
