"""Errors that eager's kernels raise on a GPU end the program there too, by an assertion on the device, which takes the process along."""

import subprocess
import sys

import pytest

RUN = """
import sys
import torch
from torch.nn import functional as F

index, x = torch.tensor([3, 1, {index}], device="cuda"), torch.full((5, 4), 0.5, device="cuda")
x[0, 0] = {element}
call = torch.compile(lambda i, x: {call}, backend="bascule", options={{"on_error": "raise"}})
result = call(index, x)
torch.cuda.synchronize()
print("it went on")
"""
CALLS = {
    "index": "x[i] * 2",
    "index of a constant": "x[torch.full_like(i, {index})] * 2",
    "embedding": "F.embedding(i, x) * 2",
    "index_add": "x.index_add(0, i, x[:3])",
    "index_reduce": "x.index_reduce(0, i, x[:3], 'amax')",
    "max_unpool": "F.max_unpool2d(x[None, :1, :3], i[None, None] - 1, 1)",
    "binary_cross_entropy": "F.binary_cross_entropy(x, x.round().clamp(0, 1))",
    "bernoulli": "torch.bernoulli(x)",
    "normal": "torch.normal(x * 2, x)",
}
OF_ELEMENTS = ("binary_cross_entropy", "bernoulli", "normal")


def ran(name: str, **values: float) -> subprocess.CompletedProcess:
    given = {"index": 2, "element": 0.5, **values}
    text = RUN.format(call=CALLS[name].format(**given), **given)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", CALLS)
def test_an_assertion_on_the_device(name):
    right, wrong = ran(name), ran(name, **({"element": -1.5} if name in OF_ELEMENTS else {"index": 9}))
    assert right.returncode == 0 and "it went on" in right.stdout, right.stderr
    assert wrong.returncode != 0 and "it went on" not in wrong.stdout
    assert "device-side assert" in wrong.stderr and (
        "out of bounds" in wrong.stderr or "an element is not" in wrong.stderr
    )
