"""Windows of images that are padded up to whole windows, as in a Swin transformer: sizes are quotients of numbers below zero."""

import pytest
import torch
import torch.nn.functional as F

from tests.frontend.against_eager import check, leaf

WINDOW = 4


def in_windows(x, like):
    height, width = like.shape[2:]
    image = x.view(x.shape[0], height, width, x.shape[2])
    image = F.pad(image, (0, 0, 0, -width % WINDOW, 0, -height % WINDOW))
    _, rows, columns, channels = image.shape
    parts = (rows // WINDOW, WINDOW, columns // WINDOW, WINDOW, channels)
    windows = image.view(-1, *parts).transpose(2, 3).contiguous().view(-1, WINDOW, WINDOW, channels).sin()
    whole = windows.view(-1, rows // WINDOW, columns // WINDOW, WINDOW, WINDOW, channels)
    whole = whole.transpose(2, 3).contiguous().view(-1, rows, columns, channels)
    if rows > height or columns > width:
        whole = whole[:, :height, :width].contiguous()
    return whole.view(x.shape[0], height * width, channels)


@pytest.mark.parametrize("size", [(20, 24), (10, 7)])
def test_padded_windows(size):
    torch.manual_seed(0)
    height, width = size
    check(in_windows, [leaf(2, height * width, 2), torch.randn(1, 1, height, width)], dynamic=True)
