"""Constants halved and doubled: which there are, where a change reaches, and that a kernel compiled with one is told apart."""

import importlib

import pytest
import torch

from benchmarks import constants
from benchmarks.constants import Constant, Kernel, changed, digest, recorded

BLOCK = "bascule.dialect.scheduling.cpu.planner"


def found(device, module, name):
    (constant,) = [c for c in constants.constants(device) if (c.module, c.name) == (module, name)]
    return constant


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_all_are_numbers_of_the_device(device):
    each = constants.constants(device)
    other = {"cpu": "gpu", "cuda": "cpu"}[device]
    assert len({str(c) for c in each}) == len(each) > 50
    assert all(c.value > 0 and f"scheduling.{other}" not in c.module for c in each)


def test_a_change_reaches_those_who_import_it_and_ends():
    machine, rows = (importlib.import_module(f"bascule.dialect.scheduling.gpu.{name}") for name in ("machine", "rows"))
    constant = found("cuda", machine.__name__, "VECTOR")
    with changed(constant, 2.0):
        assert machine.VECTOR == rows.VECTOR == 2 * constant.value
    assert machine.VECTOR == rows.VECTOR == constant.value


def test_another_module_may_have_one_of_that_name():
    rows, columns = (importlib.import_module(f"bascule.dialect.scheduling.gpu.{name}") for name in ("rows", "columns"))
    held = columns.HELD
    with changed(Constant(rows.__name__, "HELD", rows.HELD), 2.0):
        assert held == columns.HELD


def test_a_kernel_that_comes_out_otherwise_is_compiled_beside_itself():
    x = torch.randn(512, 1024)

    def step():
        compiled = constants._compiled(lambda x: torch.softmax(x.sin(), 0))
        return constants._called(lambda: compiled(x))

    kernel, block = Kernel("softmax", step, constants._cpu_seconds), found("cpu", BLOCK, "BLOCK")
    _, graphs = recorded(kernel)
    base = digest(graphs)
    assert digest(graphs) == base
    with changed(block, 0.5):
        other, again = recorded(kernel)
        assert digest(graphs) != base and again == graphs
    torch.testing.assert_close(other(), torch.softmax(x.sin(), 0))
