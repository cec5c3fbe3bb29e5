"""Rules of views, indexing, scatters, assembled tensors and pooling, against eager, by the reference interpreter."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.frontend.interpreted import compiled

torch.manual_seed(0)
X = torch.randn(4, 6, 5)
IMAGE = torch.randn(2, 3, 7, 9)
ROWS = torch.tensor([[0, 2], [1, -1]])
PLACES = torch.randint(0, 6, (4, 3, 5))


def agree(function: Callable, *inputs: torch.Tensor, dynamic: bool | None = False, to_aten: set[str] = frozenset()):
    """The compiled function's results, strides and, for floats, gradients are eager's; nothing but `to_aten` was left to ATen."""

    def run(f):
        own = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
        outs = f(*own)
        outs = outs if isinstance(outs, tuple | list) else (outs,)
        total = [o.double().square().sum() for o in outs if o.requires_grad]
        grads = torch.autograd.grad(sum(total), [x for x in own if x.requires_grad], allow_unused=True) if total else ()
        return outs, grads

    expected, gradients = run(function)
    g, backend = compiled(function, dynamic=dynamic)
    actual, others = run(g)
    for a, e in zip((*actual, *others), (*expected, *gradients), strict=True):
        if e is None:
            assert a is None
            continue
        low = e.dtype in (torch.bfloat16, torch.float16)
        torch.testing.assert_close(a, e, rtol=2e-2 if low else 1e-4, atol=2e-2 if low else 1e-5, equal_nan=True)
    for a, e in zip(actual, expected):
        assert a.stride() == e.stride() or e.numel() <= 1 or 1 in e.shape
    assert backend.called() <= to_aten, backend.called()


VIEWS = {
    "merge": lambda x: x.reshape(24, 5) + 0,
    "split": lambda x: x.view(2, 2, 6, 5) + 0,
    "cross": lambda x: x.view(6, 4, 5) + 0,
    "cross far": lambda x: x.view(5, 3, 8) + 0,
    "ones": lambda x: x.view(4, 1, 6, 1, 5) * 2,
    "of transposed": lambda x: x.transpose(0, 2).reshape(30, 4) + 0,
    "permute": lambda x: x.permute(2, 0, 1) * 2,
    "movedim": lambda x: x.movedim((0, 1), (2, 0)) * 2,
    "slice": lambda x: x[1:, ::2, -3:] + 0,
    "slice past": lambda x: x[-9:3, 2:99] + 0,
    "select": lambda x: x[:, -2] * x[:, 1],
    "expand": lambda x: x[:1].expand(3, 4, 6, 5) * x,
    "diagonal": lambda x: x.diagonal(-1, 0, 2) * 2,
    "unfold": lambda x: x.unfold(1, 3, 2) * 2,
    "split sizes": lambda x: [p * 2 for p in x.split([1, 3, 2], 1)],
    "chunk": lambda x: [p * 2 for p in x.chunk(4, 1)],
    "unbind": lambda x: [p * 2 for p in x.unbind(2)],
    "tensor_split": lambda x: [p * 2 for p in x.tensor_split(4, 2)],
    "squeeze": lambda x: x[:, :1].squeeze(1) + x[..., :1].squeeze(-1).sum(),
    "output": lambda x: x.transpose(0, 1)[2:],
    "bits": lambda x: x.detach().view(torch.int32) ^ 1,
    "strided": lambda x: (x * 2).as_strided((3, 4), (5, 7), 2) * 1,
}
REARRANGED = {
    "flip": lambda x: x.flip(0, 2),
    "roll": lambda x: x.roll((2, -1), (1, 0)),
    "roll flat": lambda x: x.roll(7),
    "rot90": lambda x: x.rot90(1, (0, 2)) * x.rot90(3, (0, 2)),
    "repeat": lambda x: x.repeat(2, 1, 3, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1) + x.repeat_interleave(3).view(4, 18, 5),
    "diag_embed": lambda x: torch.diag_embed(x, 1) + torch.diag_embed(x, -1).transpose(-1, -2),
    "cat": lambda x: torch.cat([x, x[:, :2] * 2, x.flip(1)], 1),
    "cat many": lambda x: torch.cat([x[:, i : i + 1 + i % 2] * i for i in range(6)] + [x.new_zeros(0)], 1),
    "cat dtypes": lambda x: torch.cat([x, (x * 4).int(), x > 0], -1),
    "stack": lambda x: torch.stack([x, x * 2, x.sin()], 1),
    "pad": lambda x: F.pad(x, (1, -2, 0, 3), value=1.5),
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 1] * 3, 1, -2),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, 1:5:2] * 3, 1, 1, 5, 2),
    "diagonal_scatter": lambda x: torch.diagonal_scatter(x, x[:, 0].t() * 3, 1, 0, 1),
}
INDEXED = {
    "row": lambda x: x[ROWS],
    "two apart": lambda x: x[ROWS, :, ROWS],
    "two adjacent": lambda x: x[:, ROWS, ROWS[0]],
    "int32": lambda x: x[:, ROWS.int()],
    "none and slice": lambda x: x[None, 1:, ROWS[0], ..., ::2],
    "gather": lambda x: x.gather(1, PLACES),
    "take_along_dim": lambda x: torch.take_along_dim(x, PLACES[:, :1], 1),
    "index_select": lambda x: x.index_select(2, torch.tensor([4, 0, 4])),
    "take": lambda x: x.take(torch.tensor([[3, -1], [119, 0]])),
    "embedding": lambda x: F.embedding(torch.tensor([[1, 5], [0, 1]]), x[0], padding_idx=1),
    "bucketize": lambda x: (
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5])) + torch.bucketize(x, torch.tensor([0.0, 1.0]), right=True)
    ),
    "put rows": lambda x: torch.index_put(x, (ROWS,), x[:2, None, :, :] * torch.ones(2, 1, 1)),
    "accumulate": lambda x: torch.ops.aten.index_put(x, [None, torch.tensor([1, 1, 2])], x[:, :3] * 2, True),
    "where mask": lambda x: torch.index_put(x, (x > 0,), torch.tensor(7.0)),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(1) * 2),
    "scatter": lambda x: x.scatter(1, PLACES, 2.5),
    "scatter_add": lambda x: x.scatter_add(1, PLACES, x[:, :3].exp()),
    "index_add": lambda x: x.index_add(1, torch.tensor([2, 0, 2]), x[:, 3:] * 2, alpha=1.5),
    "index_copy": lambda x: x.index_copy(1, torch.tensor([2, 0, 3]), x[:, 3:] * 2),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([2, -1]), 3.5),
    "put_": lambda x: (x * 1).put_(torch.tensor([3, -1, 3]), torch.tensor([1.0, 2.0, 4.0]), accumulate=True),
}
IMAGES = {
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d indices": lambda x: F.max_pool2d(x, (2, 3), (1, 2), (1, 0), (2, 1), True, return_indices=True),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
    "avg_pool2d pad": lambda x: F.avg_pool2d(x, 3, 2, 1, True) + F.avg_pool2d(x, 3, 2, 1, True, divisor_override=5),
    "lp_pool2d": lambda x: F.lp_pool2d(x.abs() + 1, 2, 2),
    "adaptive_avg": lambda x: F.adaptive_avg_pool2d(x, (3, 1)),
    "adaptive_max": lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
    "avg_pool1d": lambda x: F.avg_pool1d(x[0], 3, 2),
    "max_pool3d": lambda x: F.max_pool3d(x, 2, 1, 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2.0),
    "nearest odd": lambda x: F.interpolate(x, (5, 20)) + F.interpolate(x, (5, 20), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, (5, 20), mode="bilinear"),
    "bilinear corners": lambda x: F.interpolate(x, (5, 20), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"),
    "reflect": lambda x: F.pad(x, (2, 1, 0, 3), mode="reflect"),
    "replicate": lambda x: F.pad(x, (2, 1, -1, 3), mode="replicate"),
    "circular": lambda x: F.pad(x, (2, 1, 0, 3), mode="circular"),
    "im2col": lambda x: F.unfold(x, (2, 3), 2, 1, (1, 2)),
    "col2im": lambda x: F.fold(F.unfold(x, (2, 3), 1, 1, 2), (7, 9), (2, 3), 1, 1, 2),
    "grid_sample": lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1) * 0.8, align_corners=False),
    "grid_sample border": lambda x: F.grid_sample(
        x, x[:, :2].permute(0, 2, 3, 1), "bicubic", "border", align_corners=True
    ),
    "grid_sample reflected": lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), "bilinear", "reflection", False),
    "pixel_shuffle": lambda x: F.pixel_unshuffle(F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2)[:, :, :, 2:], 2),
}


@pytest.mark.parametrize("name", VIEWS | REARRANGED | INDEXED)
def test_tensor(name):
    agree((VIEWS | REARRANGED | INDEXED)[name], X)


@pytest.mark.parametrize("name", IMAGES)
def test_image(name):
    agree(IMAGES[name], IMAGE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", [*REARRANGED, "row", "gather", "index_select", "index_copy", "take"])
def test_dtype(name, dtype):
    if dtype == torch.bool and ("scatter" in name or name == "index_copy"):
        pytest.skip("multiplies, so the source is not boolean")
    x = (X * 3).to(dtype)
    agree((REARRANGED | INDEXED)[name], x)


@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8], ids=str)
def test_scatter_reduce(reduce, include, dtype):
    x, source = (X * 3).to(dtype), (torch.randn(4, 3, 5) * 3).to(dtype)

    def function(x, source):
        return x.detach().scatter_reduce(1, PLACES, source.detach(), reduce, include_self=include)

    agree(function, x, source)


DYNAMIC = {
    "merge": lambda x: x.reshape(-1, x.shape[2]) + 0,
    "merge all": lambda x: x.reshape(-1) * 2,
    "split": lambda x: x.reshape(x.shape[0], 2, -1, x.shape[2]) * 2,
    "merge and split": lambda x: x.reshape(x.shape[0] * x.shape[1], x.shape[2]).view(x.shape) * 2,
    "slice": lambda x: x[1:, :-2, -3:] + 0,
    "slice by size": lambda x: x[:, x.shape[1] // 2 :] + x[:, : x.shape[1] - x.shape[1] // 2].sum(),
    "select": lambda x: x[:, -1] * 2,
    "cat": lambda x: torch.cat([x, x.flip(1), x[:, :1]], 1),
    "cat halves": lambda x: torch.cat([-x[..., x.shape[2] // 2 :], x[..., : x.shape[2] // 2]], -1),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)),
    "roll": lambda x: x.roll(2, 1),
    "roll rows": lambda x: x.roll(2, -1),
    "roll both": lambda x: x.roll((1, 3), (0, 2)),
    "roll flat": lambda x: x.roll(4),
    "row": lambda x: x[torch.tensor([1, -1])],
    "gather": lambda x: x.gather(1, torch.zeros_like(x, dtype=torch.int64)),
    "index_put": lambda x: torch.index_put(x, (torch.tensor([0, -1]),), x[:1], accumulate=True),
    "embedding": lambda x: F.embedding(torch.tensor([[1, 3]]), x[0]),
    "repeat": lambda x: x.repeat(1, 2, 1),
    "unfold": lambda x: x.unfold(1, 3, 2) * 2,
    "split list": lambda x: [p * 2 for p in x.split(4, 1)],
    "max_pool": lambda x: F.max_pool2d(x[None], 2, 2),
    "avg_pool": lambda x: F.avg_pool2d(x[None], 3, 2, 1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x[None], 3),
    "nearest": lambda x: F.interpolate(x[None], scale_factor=2.0),
    "bilinear": lambda x: F.interpolate(x[None], scale_factor=1.5, mode="bilinear"),
    "reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic(name, target):
    function = DYNAMIC[name]
    g, backend = compiled(function, dynamic=True, target=target)
    for sizes in ((4, 6, 5), (3, 8, 7), (5, 10, 6)):
        x = torch.randn(sizes)
        expected, actual = function(x), g(x)
        pairs = zip(actual, expected) if isinstance(expected, list) else [(actual, expected)]
        for a, e in pairs:
            torch.testing.assert_close(a, e)
            assert a.stride() == e.stride() or 1 in e.shape
    assert not backend.called()


def test_index_out_of_range_stays_inside():
    g, _ = compiled(lambda x, i: (x[i], x.index_select(0, i), torch.index_put(x, (i,), torch.tensor(1.0))))
    rows, selected, written = g(X, torch.tensor([99, -99]))
    torch.testing.assert_close(rows, X[[3, 0]])
    torch.testing.assert_close(selected, X[[3, 0]])
    torch.testing.assert_close(written[1:3], X[1:3])


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 12, 31, 32, 33])
def test_a_search_takes_the_path_of_eagers(count, target):
    """Among boundaries that are not sorted, and those that `sort` leaves NaN among, the place that is found is the path's."""
    values = torch.cat([torch.randn(50), torch.tensor([torch.nan, torch.inf, -torch.inf])])
    ordered = torch.randn(count).sort().values
    spoilt = torch.where(torch.rand(count) < 0.3, torch.nan, ordered)
    for right in (False, True):

        def search(x, boundaries, right=right):
            return torch.bucketize(x, boundaries, right=right), torch.searchsorted(boundaries, x, right=right)

        g, backend = compiled(search, target=target)
        for boundaries in (ordered, spoilt, spoilt.sort().values, torch.randn(count)):
            for actual, expected in zip(g(values, boundaries), search(values, boundaries)):
                torch.testing.assert_close(actual, expected, rtol=0, atol=0)
        assert not backend.called()
