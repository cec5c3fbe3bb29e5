"""Schedules of depthwise convolutions on an H200: a weight's gradient alone copies ahead, or has narrow loads in short loops."""

import re

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from tests.targets.test_cuda_pipelines import run

HALF = torch.bfloat16
# batch, channels, image; window, stride, padding
CASES = {
    "3 x 3": ((128, 64, 56, 56), 3, 1, 1),
    "3 x 3, every other place": ((128, 64, 112, 112), 3, 2, 1),
    "5 x 5": ((64, 120, 28, 28), 5, 1, 2),
    "7 x 7": ((32, 96, 56, 56), 7, 1, 3),
    "9 x 9 of a small image": ((8, 512, 20, 20), 9, 1, 4),
}


def last(batch, channels, *image, dtype):
    """Channels-last."""
    return torch.empty(batch, *image, channels, dtype=dtype, device="cuda").permute(0, 3, 1, 2)


def windows(case, computes, dtype, scaled=False):
    """(stages, points of a program, threads of it) of each kernel that sums over windows; `computes`: "forward", or whose gradient; `scaled`:
    the image is computed."""
    (batch, channels, *image), window, stride, padding = CASES[case]

    def forward(x, weight, gradient):
        return F.conv2d(x, weight, None, stride, padding, groups=channels)

    def backward(x, weight, gradient, *scale):
        x = x * scale[0] if scale else x
        mask = [computes == "image", computes == "weight", False]
        sizes = [stride] * 2, [padding] * 2, [1, 1]
        found = torch.ops.aten.convolution_backward(gradient, x, weight, None, *sizes, False, [0, 0], channels, mask)
        return found[mask.index(True)]

    with FakeTensorMode():
        smaller = [(size + 2 * padding - window) // stride + 1 for size in image]
        x, gradient = (last(batch, channels, *size, dtype=dtype) for size in (image, smaller))
        weight = torch.empty(channels, 1, window, window, dtype=dtype, device="cuda")
        scale = [torch.empty(1, channels, 1, 1, dtype=dtype, device="cuda")] if scaled else []
        text = run(forward if computes == "forward" else backward, [x, weight, gradient, *scale])
    found = []
    for schedule in re.findall(r'kind = "window".*?warps = \d+', text):
        (stages,), (warps,) = (map(int, re.findall(rf"{name} = (\d+)", schedule)) for name in ("stages", "warps"))
        points = 1
        for extent in re.findall(r"tile = array<i64: ([^>]*)>", schedule)[-1].split(","):
            points *= int(extent)
        found.append((stages, points, 32 * warps))
    return found


@pytest.mark.parametrize("computes", ["forward", "image"])
@pytest.mark.parametrize("case", CASES)
def test_forwards_and_gradients_of_images_copy_nothing_ahead(case, computes):
    assert all(stages == 1 for stages, _, _ in windows(case, computes, HALF))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", [HALF, torch.float32], ids=str)
@pytest.mark.parametrize("case", ["3 x 3", "3 x 3, every other place"])
def test_gradients_of_weights_with_few_terms_copy_ahead(case, dtype, scaled):
    assert [stages for stages, _, _ in windows(case, "weight", dtype, scaled)] == [3]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", [HALF, torch.float32], ids=str)
@pytest.mark.parametrize("case", ["5 x 5", "7 x 7"])
def test_gradients_of_other_weights_have_loads_of_four_bytes(case, dtype, scaled):
    ((stages, points, threads),) = windows(case, "weight", dtype, scaled)
    assert stages == 1 and points * dtype.itemsize == 4 * threads
