"""The rules of the derivatives of layer and batch normalization."""

import pytest
import torch

from tests.frontend.checking import aten, check

SLACK = {"rtol": 3e-2, "atol": 3e-2}
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def how(dtype: torch.dtype) -> dict[str, float]:
    return SLACK if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("normalized", [1, 2, 3])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_backward(dtype, normalized, affine):
    x, grad = torch.randn(4, 3, 5).to(dtype) * 2 + 1, torch.randn(4, 3, 5).to(dtype)
    sizes = list(x.shape[3 - normalized :])
    weight, bias = torch.randn(sizes).to(dtype), torch.randn(sizes).to(dtype)
    _, mean, rstd = aten.native_layer_norm(x, sizes, weight, bias, 1e-3)

    def function(grad, x, mean, rstd, weight, bias):
        given = (weight, bias) if affine else (None, None)
        found = aten.native_layer_norm_backward(grad, x, sizes, mean, rstd, *given, [True, affine, affine])
        return found if affine else found[0]

    check(function, grad, x, mean, rstd, weight, bias, **how(dtype))


@pytest.mark.parametrize("wanted", [(True, False, True), (False, True, False), (False, False, True)])
def test_gradients_that_nobody_wants(wanted):
    x, grad, weight, bias = torch.randn(6, 8), torch.randn(6, 8), torch.randn(8), torch.randn(8)
    _, mean, rstd = aten.native_layer_norm(x, [8], weight, bias, 1e-5)
    image, of_image = torch.randn(3, 4, 5, 2), torch.randn(3, 4, 5, 2)
    scale = torch.randn(4)
    _, save_mean, save_rstd = aten.native_batch_norm(image, scale, None, None, None, True, 0.1, 1e-5)

    def function(grad, x, mean, rstd, weight, bias, of_image, image, scale, save_mean, save_rstd):
        found = aten.native_layer_norm_backward(grad, x, [8], mean, rstd, weight, bias, wanted)
        found += aten.native_batch_norm_backward(
            of_image, image, scale, None, None, save_mean, save_rstd, True, 1e-5, wanted
        )
        return tuple(one for one, want in zip(found, wanted * 2) if want)

    check(function, grad, x, mean, rstd, weight, bias, of_image, image, scale, save_mean, save_rstd, **how(x.dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", [(6, 3), (4, 3, 5), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_backward(dtype, sizes, training, affine):
    x, grad = torch.randn(sizes).to(dtype) * 2 + 1, torch.randn(sizes).to(dtype)
    weight, means, variances = torch.randn(3).to(dtype), torch.randn(3).to(dtype), torch.rand(3).to(dtype) + 0.5
    _, save_mean, save_rstd = aten.native_batch_norm(
        x, weight, None, means.clone(), variances.clone(), training, 0.1, 1e-3
    )

    def function(grad, x, weight, means, variances, save_mean, save_rstd):
        given = weight if affine else None
        found = aten.native_batch_norm_backward(
            grad, x, given, means, variances, save_mean, save_rstd, training, 1e-3, [True, affine, affine]
        )
        return found if affine else found[0]

    check(function, grad, x, weight, means, variances, save_mean, save_rstd, **how(dtype))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("training", [True, False])
def test_gradients_of_one_image_whose_channels_are_last(training, dynamic):
    """Gradients of tokens, seen as an image: channels last, but the stride along the batch of one is no image's. ATen's kernel on a CPU reads
    them row by row beside a row-major image (seen in 2.13: RT-DETR), so two images are the standard, of which one has a gradient."""
    norm = torch.nn.BatchNorm2d(8, dtype=torch.float64).train(training)
    for values in (norm.weight, norm.bias, norm.running_mean):
        torch.nn.init.normal_(values)

    def function(x):
        return norm(x).flatten(2).transpose(1, 2).sin()

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    for height, width in ((2, 2), (4, 3)) if dynamic else ((2, 2),):
        x = torch.randn(1, 8, height, width, dtype=torch.float64, requires_grad=True)
        weights = torch.randn(1, height * width, 8, dtype=torch.float64)
        leaves = [x, norm.weight, norm.bias]
        got = torch.autograd.grad(compiled(x), leaves, weights)
        want = torch.autograd.grad(function(x.expand(2, -1, -1, -1))[:1], leaves, weights)
        for mine, right in zip(got, want):
            torch.testing.assert_close(mine, right)


def test_of_no_rows():
    x, weight = torch.randn(0, 8), torch.randn(8)
    _, mean, rstd = aten.native_layer_norm(x, [8], weight, weight, 1e-5)

    def function(grad, x, mean, rstd, weight):
        return aten.native_layer_norm_backward(grad, x, [8], mean, rstd, weight, weight, [True, True, True])

    check(function, x.clone(), x, mean, rstd, weight)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", ["rows", "image"])
def test_compiled_training_step(shape, dynamic):
    """Against f64: layer norm and batch norm of channels-last images, dynamic sizes among them."""
    norm = torch.nn.LayerNorm(24) if shape == "rows" else torch.nn.BatchNorm2d(6)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    for rows in (5, 9) if dynamic else (5,):
        x = (
            torch.randn(rows, 24)
            if shape == "rows"
            else torch.randn(rows, 6, 7, 3).to(memory_format=torch.channels_last)
        )
        found = []
        compiled = torch.compile(
            lambda m, x: m(x).sin(), backend="bascule", options={"on_error": "raise"}, dynamic=dynamic
        )
        for dtype, call in ((torch.float64, lambda m, x: m(x).sin()), (torch.float32, compiled)):
            model = norm.to(dtype)
            model.zero_grad()
            leaf = x.to(dtype).requires_grad_()
            (call(model, leaf) * torch.linspace(-1, 1, x.numel(), dtype=dtype).view(x.shape)).sum().backward()
            found.append([leaf.grad, *(p.grad.clone() for p in model.parameters())])
        for want, got in zip(*found):
            torch.testing.assert_close(got, want.float(), rtol=1e-4, atol=1e-5)
            assert got.stride() == want.stride()
