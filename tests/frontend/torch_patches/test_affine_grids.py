"""Affine grids of any sizes, and the gradient of their matrices."""

import pytest
import torch
from torch.nn import functional as F

from tests.frontend.against_eager import check, leaf

SPACES = {
    "plane": ((6, 7), (4, 9)),
    "line": ((1, 5), (1, 3)),
    "volume": ((3, 4, 5), (2, 5, 3)),
    "sheet": ((4, 1, 3), (2, 1, 6)),
}


def matrices(samples, space, dtype=torch.float32):
    return leaf(samples, len(space), len(space) + 1).to(dtype).detach().requires_grad_()


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("align_corners", [True, False], ids=["corners", "centers"])
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
def test_grids(name, align_corners, dynamic):
    def grid(given, image):
        return F.affine_grid(given, image.shape, align_corners)

    calls = [[matrices(n, space), torch.ones(n, 3, *space)] for n, space in zip((2, 3), SPACES[name])]
    check(grid, *calls, dynamic=dynamic)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_dtypes(dtype):
    given = matrices(2, (6, 7), dtype)
    tolerance = {"rtol": 2e-2, "atol": 5e-2} if dtype is torch.bfloat16 else {}
    check(lambda x: F.affine_grid(x, (2, 3, 6, 7), align_corners=False), [given], **tolerance)


def test_a_spatial_transformer_of_images_of_any_size():
    torch.manual_seed(0)
    head = torch.nn.Linear(12, 6)

    def model(image, weight):
        given = F.linear(image.flatten(1)[:, :12], weight, head.bias.detach()).view(-1, 2, 3)
        return F.grid_sample(image, F.affine_grid(given, image.shape, align_corners=False), align_corners=False)

    weight = head.weight.detach().requires_grad_()
    calls = [[leaf(2, 3, 6, 7), weight], [leaf(4, 3, 5, 9), weight]]
    check(model, *calls, dynamic=True, rtol=1e-4, atol=1e-4)
