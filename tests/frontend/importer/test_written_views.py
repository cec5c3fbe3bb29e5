"""Operators of the user's that write to views of tensors of dynamic sizes: whether a view stays inside of its tensor is asked of the sizes."""

import pytest
import torch

from tests.frontend.against_eager import check


@torch.library.custom_op("bascule_written_views::put", mutates_args={"out"})
def put(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    out.copy_(x * 2)
    return x + 1


put.register_fake(lambda x, out: torch.empty_like(x))


def row_of_a_copy(x, rows):
    rows = rows.clone()
    return put(x, rows[0]) + rows.sum(0), rows


def row(x, rows):
    put(x, rows[1])
    return rows.sum(0)


def end_of_a_row(x, rows):
    put(x[1:], rows[:, 1:][1])
    return rows.sum(0)


def part_of_the_memory(x, rows):
    whole = rows.view(-1)
    put(x, whole[1 : 1 + x.shape[0]])
    return whole * 2


def column(x, rows):
    put(x[: rows.shape[0]], rows.t()[1])
    return rows.cos()


def two_rows(x, rows):
    put(x, rows[1])
    put(x.sin(), rows[0])
    return rows + 1


@pytest.mark.parametrize("function", [row_of_a_copy, row, end_of_a_row, part_of_the_memory, column, two_rows])
def test_a_view_of_dynamic_sizes(function):
    calls = [(torch.randn(n), torch.randn(m, n)) for n, m in ((4, 2), (5, 4), (9, 7))]
    check(function, *calls, dynamic=True, graphs=1)


def test_what_one_size_holds_another_does_not():
    def taken(x):
        return x.as_strided((4,), (2,)) * 2

    torch._dynamo.reset()
    storage = torch.randn(40)
    call = torch.compile(taken, backend="bascule", dynamic=True)
    for size in (10, 8, 5):  # the last has three of the four elements
        torch.testing.assert_close(call(storage[:size]), taken(storage))
