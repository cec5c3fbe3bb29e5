"""Interpolation, forward and backward, against eager: one operator each way, nothing scattered between static sizes."""

import pytest
import torch
import torch.nn.functional as F
from bascule.frontend.rules.spatial.separable_interpolation import CUBIC, LINEAR, readers

from tests.frontend.against_eager import check, leaf

SIZES = {
    "doubled": ((6, 7), (12, 14)),
    "grown": ((7, 9), (15, 20)),
    "grown much": ((3, 2), (33, 29)),
    "shrunk": ((20, 30), (7, 11)),
    "shrunk much": ((64, 9), (2, 5)),
    "rows grown, columns shrunk": ((9, 40), (17, 6)),
    "to one": ((9, 5), (1, 3)),
    "of one": ((1, 1), (4, 3)),
    "as it is": ((6, 7), (6, 7)),
    "long": ((2, 100), (3, 301)),
}
TOLERANCE = {"rtol": 1e-4, "atol": 2e-5}


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_images(sizes, align_corners, mode):
    before, after = SIZES[sizes]

    def function(x):
        return F.interpolate(x, size=after, mode=mode, align_corners=align_corners)

    records = check(function, [leaf(2, 3, *before)], **TOLERANCE)
    assert not any(record.summary.aten for record in records)


@pytest.mark.parametrize("sizes", SIZES)
def test_in_double_precision(sizes):
    """Weights of f64: a place that is off by a rounding of f32 would be seen."""
    before, after = SIZES[sizes]
    x = torch.randn(1, 2, *before, dtype=torch.float64, requires_grad=True)
    check(lambda x: F.interpolate(x, size=after, mode="bicubic"), [x], rtol=1e-11, atol=1e-11)
    check(lambda x: F.interpolate(x, size=after, mode="bilinear"), [x], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("factor", [2.0, 1.7, 0.6, (0.3, 3.3)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest", "nearest-exact"])
def test_factors(mode, factor):
    check(lambda x: F.interpolate(x, scale_factor=factor, mode=mode), [leaf(2, 3, 20, 25)], **TOLERANCE)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_channels_last(mode):
    x = torch.randn(2, 3, 8, 10).to(memory_format=torch.channels_last).requires_grad_()
    check(lambda x: F.interpolate(x, size=(16, 23), mode=mode), [x], **TOLERANCE)


@pytest.mark.parametrize("mode, sizes, after", [("linear", (17,), 40), ("trilinear", (4, 5, 6), (9, 4, 13))])
def test_one_and_three_dimensions(mode, sizes, after):
    check(lambda x: F.interpolate(x, size=after, mode=mode), [leaf(2, 3, *sizes)], **TOLERANCE)


def test_narrow_elements_are_rounded_once():
    x = torch.randn(1, 4, 16, 16, dtype=torch.bfloat16, requires_grad=True)
    check(lambda x: F.interpolate(x, size=(33, 40), mode="bilinear"), [x], rtol=2e-2, atol=2e-2)
    got = torch.compile(lambda x: F.interpolate(x, size=(33, 40), mode="bilinear"), backend="bascule")(x.detach())
    want = F.interpolate(x.detach().double(), size=(33, 40), mode="bilinear")
    assert (got.double() - want).abs().max() <= 2**-8 * want.abs().max()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_sizes_that_change(mode):
    """The backward adds at places from data then, and nothing is static."""
    calls = [[leaf(2, 3, height, width)] for height, width in ((8, 9), (11, 6), (5, 30))]
    check(lambda x: F.interpolate(x, scale_factor=2, mode=mode), *calls, dynamic=True, **TOLERANCE)


MODES = {
    1: ["nearest", "nearest-exact", "linear"],
    2: ["nearest", "nearest-exact", "bilinear", "bicubic"],
    3: ["nearest", "trilinear"],
}


@pytest.mark.parametrize("dims, mode", [(dims, mode) for dims, modes in MODES.items() for mode in modes])
def test_as_many_samples_as_data_says(dims, mode):
    def chosen(x):
        return F.interpolate(x[x.flatten(1)[:, 0] > 0], scale_factor=2, mode=mode)

    calls = [leaf(9, 3, *(4, 5, 3)[:dims]), leaf(5, 3, *(4, 5, 3)[:dims])]
    check(chosen, *([x] for x in calls), dynamic=None, **TOLERANCE)


IMAGES = [
    ("nearest", False),
    ("nearest-exact", False),
    *((mode, aa) for mode in ("bilinear", "bicubic") for aa in (False, True)),
]
VOLUMES = [(mode, False) for mode in ("nearest", "nearest-exact", "trilinear")]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "form, mode, antialias",
    [(torch.channels_last, *of) for of in IMAGES] + [(torch.channels_last_3d, *of) for of in VOLUMES],
)
def test_gradients_lie_as_eager_has_them(form, mode, antialias, dynamic):
    """Some operators give row-major gradients of channels-last images. The sizes are symbols, or not."""

    def function(x, like):
        return F.interpolate(x * 2, size=[2 * size for size in like.shape], mode=mode, antialias=antialias).sin()

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    for sizes in ((4, 5, 6), (5, 3, 2)):
        like = torch.randn(sizes[: 2 if form == torch.channels_last else 3])
        x = torch.randn(2, 3, *like.shape).to(memory_format=form).requires_grad_()
        weights = torch.randn_like(function(x, like))
        got, want = (torch.autograd.grad(step(x, like), x, weights)[0] for step in (compiled, function))
        torch.testing.assert_close(got, want, **TOLERANCE)
        assert got.stride() == want.stride()


def test_integers_are_what_eager_makes_of_them():
    x = torch.randint(0, 256, (1, 3, 9, 11), dtype=torch.uint8)
    check(lambda x: F.interpolate(x, size=(20, 17), mode="bilinear"), [x])
    check(lambda x: F.interpolate(x, size=(20, 17), mode="nearest"), [x])


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("reach", [LINEAR, CUBIC])
@pytest.mark.parametrize("size, count", [(5, 10), (10, 5), (7, 30), (64, 128), (1, 4), (4, 1), (13, 13)])
def test_who_reads_an_element(size, count, reach, align_corners):
    """The runs hold every element of the result in whose derivative the element stands."""
    who = readers(size, count, None, align_corners, reach)
    mode = {LINEAR: "bilinear", CUBIC: "bicubic"}[reach]

    def function(x):
        return F.interpolate(x[None, None, None], size=(1, count), mode=mode, align_corners=align_corners)[0, 0, 0]

    weights = torch.autograd.functional.jacobian(function, torch.randn(size, dtype=torch.float64))  # [count, size]
    starts = [i * who.numerator // who.denominator + who.offset for i in range(size)]
    outside = weights.clone()
    for i, start in enumerate(starts):
        outside[max(start, 0) : max(start + who.taps, 0), i] = 0
    assert outside.abs().max() < 1e-5
    assert weights.abs().max() > 0.1
