"""Scatters whose points store to several places: along dims where all have one index they do not meet, and threads share those."""

import pytest
import torch


@pytest.mark.parametrize("threads", [1, 2])
def test_images_and_channels_are_shared_among_threads(threads):
    def gradient(g, x, grid):
        return torch.ops.aten.grid_sampler_2d_backward(g, x, grid, 0, 0, False, [True, False])[0]

    x, grid = torch.randn(3, 5, 40, 30), torch.rand(3, 37, 41, 2) * 2.4 - 1.2
    g = torch.randn(3, 5, 37, 41)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch._dynamo.reset()
        got = torch.compile(gradient, backend="bascule")(g, x, grid)
    finally:
        torch.set_num_threads(before)
    want = gradient(g.double(), x.double(), grid.double())
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)
