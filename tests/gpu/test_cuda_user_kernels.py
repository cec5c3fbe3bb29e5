"""Triton kernels of the user's inside compiled functions, on a GPU, against eager."""

import pytest
import torch

import bascule
from tests.entry.user_kernel_cases import CASES, check, training_step, with_gradients

OPTIONS = {"on_error": "raise"}


def compiled(function, **kwargs):
    return torch.compile(function, backend="bascule", options=OPTIONS, fullgraph=True, **kwargs)


@pytest.mark.parametrize("name", CASES)
def test_as_eager(name):
    call = compiled(CASES[name][0])
    for _ in range(2):
        check(call, name, (37, 50), "cuda")
    assert bascule.counters()["kernels"]["launches"]


@pytest.mark.parametrize("name", CASES)
def test_of_dynamic_sizes(name):
    call = compiled(CASES[name][0], dynamic=True)
    for sizes in ((37, 50), (64, 48), (5, 1000)):
        check(call, name, sizes, "cuda")


def test_gradients():
    x = torch.randn(20, 30, device="cuda")
    got, want = (training_step(call, x) for call in (compiled(with_gradients), with_gradients))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["between kernels", "both constants", "written intermediate"])
def test_under_recordings(name):
    function, count = CASES[name]
    call = torch.compile(function, backend="bascule", options={**OPTIONS, "cudagraphs": True})
    for _ in range(4):
        inputs = [torch.randn(37, 50, device="cuda") for _ in range(count)]
        torch.compiler.cudagraph_mark_step_begin()
        torch.testing.assert_close(call(*inputs), function(*inputs), rtol=1e-4, atol=1e-4)
