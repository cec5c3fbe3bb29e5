"""Rows that are added to few rows chosen by data, each a sum over all points, through the interpreted kernels."""

import pytest
import torch

from tests.dialect.scatters.segment_cases import GATHERED, WORDS, check, embedding, index_add, index_put, words

INTERPRET = GATHERED | {"target": "interpret"}
DEFAULT = {"target": "interpret", "on_error": "raise"}
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


class Compiled:
    """A compiled function; `scatters` and `sums`: what is left of its scatters by `gather-scatters`, and what became of the others."""

    def __init__(self, function, folder, options=INTERPRET, **kwargs):
        self.folder = folder
        options = options | {"dump": str(folder), "cache": False}
        self.call = torch.compile(function, backend="bascule", options=options, **kwargs)

    def __call__(self, *args):
        return self.call(*args)

    def _count(self, text: str) -> int:
        found = list(self.folder.glob("*/*-gather-scatters.mlir"))
        assert found
        return sum(file.read_text().count(text) for file in found)

    @property
    def scatters(self) -> int:
        return self._count('"bascule.scatter"(')

    @property
    def sums(self) -> int:
        return self._count("as sums of ")


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradient_of_an_embedding(kind, dtype, tmp_path):
    call = Compiled(embedding(), tmp_path)
    table, g = torch.randn(9, 24, dtype=dtype, requires_grad=True), torch.randn(13, 211, 24, dtype=dtype)
    check(call, embedding(), words(kind, [13, 211], 9), table, g)
    assert (call.sums, call.scatters) == (1, 0)


@pytest.mark.parametrize("padding", [0, 2])
def test_words_without_a_gradient(padding, tmp_path):
    call = Compiled(embedding(padding), tmp_path)
    index = words("runs", [400], 9)
    index[::3] = padding
    check(call, embedding(padding), index, torch.randn(9, 24, requires_grad=True), torch.randn(400, 24))
    assert (call.sums, call.scatters) == (1, 0)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int8], ids=str)
@pytest.mark.parametrize("function", [index_add, index_put])
def test_additions_to_a_tensor(function, dtype, tmp_path):
    call = Compiled(function, tmp_path)
    x, g = ((torch.randn(*shape) * 9).to(dtype) for shape in ([5, 3, 7], [150, 3, 7]))
    check(call, function, words("zipf", [150], 5), x, g)
    assert (call.sums, call.scatters) == (1, 0)


@pytest.mark.parametrize("rows", [1, 2, 31, 64, 100])
@pytest.mark.parametrize("width", [1, 5, 130])
def test_numbers_of_rows_and_their_lengths(rows, width, tmp_path):
    call = Compiled(index_add, tmp_path)
    x, g = torch.randn(rows, width), torch.randn(1100, width)
    check(call, index_add, words("random", [1100], rows), x, g)
    assert (call.sums, call.scatters) == (1, 0)


def test_what_is_not_a_number_stays_in_its_row(tmp_path):
    call = Compiled(index_add, tmp_path)
    index, g = words("random", [90], 5), torch.randn(90, 12)
    index[:2] = torch.tensor([1, 3])
    g[0, 4], g[1, 7] = float("nan"), float("inf")
    x = torch.randn(5, 12)
    want = index_add(x.double(), index, g.double()).float()
    torch.testing.assert_close(call(x, index, g), want, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_counts(tmp_path):
    def count(x):
        return torch.zeros(10, dtype=torch.int64).scatter_add(0, x, torch.ones_like(x))

    call, x = Compiled(count, tmp_path), torch.randint(0, 10, [5000])
    assert torch.equal(call(x), torch.bincount(x, minlength=10))
    assert (call.sums, call.scatters) == (1, 0)


@pytest.mark.parametrize("heads_first", [True, False])
def test_gradient_of_a_relative_position_bias(heads_first, tmp_path):
    """The added value is itself a sum, over a batch: it is computed once, laid out as its terms are."""

    def bias(table, index, g):
        values = torch.nn.functional.embedding(index, table)
        out = values.permute(2, 0, 1)[None].expand_as(g) if heads_first else values[None].expand_as(g)
        (grad,) = torch.autograd.grad(out, table, g)
        return grad

    call = Compiled(bias, tmp_path)
    shape = (6, 4, 40, 40) if heads_first else (6, 40, 40, 4)
    check(call, bias, words("zipf", [40, 40], 32), torch.randn(32, 4, requires_grad=True), torch.randn(shape))
    assert (call.sums, call.scatters) == (1, 0)


def test_long_sums_by_the_costs(tmp_path):
    """Without being told to; cut into chunks, whose programs have all rows."""
    call = Compiled(index_add, tmp_path, DEFAULT)
    x, g = torch.randn(16, 2), torch.randn(40_000, 2)
    check(call, index_add, words("zipf", [40_000], 16), x, g)
    assert (call.sums, call.scatters) == (1, 0)


def test_few_points_or_many_rows_are_left(tmp_path):
    call = Compiled(index_add, tmp_path / "few", DEFAULT)
    check(call, index_add, words("zipf", [90], 30), torch.randn(30, 4), torch.randn(90, 4))
    assert (call.sums, call.scatters) == (0, 1)
    torch._dynamo.reset()
    call = Compiled(index_add, tmp_path / "many", DEFAULT)
    check(call, index_add, words("random", [9000], 4000), torch.randn(4000, 4), torch.randn(9000, 4))
    assert (call.sums, call.scatters) == (0, 1)


def test_sizes_that_are_not_known_are_left(tmp_path):
    call = Compiled(index_add, tmp_path, dynamic=True)
    check(call, index_add, words("zipf", [90], 5), torch.randn(5, 24), torch.randn(90, 24))
    assert (call.sums, call.scatters) == (0, 1)


def test_what_is_no_addition_of_whole_rows(tmp_path):
    x, g = torch.randn(5, 40), torch.randn(90, 40)
    index, each = words("zipf", [90], 5), torch.randint(0, 5, [90, 40])
    cases = (
        lambda: x.scatter_add(0, each, g),
        lambda: x.index_copy(0, torch.randperm(5, generator=torch.Generator().manual_seed(0)), g[:5]),
        lambda: x.scatter_reduce(0, index[:, None].expand(90, 40), g, "amax"),
        lambda: x.scatter_add(0, index[:, None].expand(90, 20), g),  # half of each row
    )
    for number, case in enumerate(cases):
        torch._dynamo.reset()
        call = Compiled(case, tmp_path / str(number))
        torch.testing.assert_close(call(), case(), rtol=1e-5, atol=1e-5)
        assert call.sums == 0
