"""Which views among a graph's results run by themselves: a view that one of several results of an operator (`chunk`) gives is like another."""

import pytest
import torch

from tests.frontend.against_eager import check, cut_at


def chunks_of_a_product(x, weight):
    first, second, third = (x @ weight).chunk(3, -1)
    return first, second.t(), third.sin()


def pieces_of_a_product(x, weight):
    first, second, third = (x @ weight).split([2, 3, 4], -1)
    return first.sin(), second.t(), third


def saved_heads(x, weight):
    """The backward saves heads of the second chunk, which begins elsewhere than the product."""
    query, key, value = (part.unflatten(-1, (1, 3)).transpose(0, 1) for part in (x @ weight).chunk(3, -1))
    return query.sin() @ key.mT @ value.sin()


def returned_chunks(x, weight):
    first, second, third = x.chunk(3, -1)
    return first.t(), second * weight.sum(), third


def reshaped_chunks(x, weight):
    """Of sizes that change, a view of every other element cannot be told from a copy."""
    first, second = x.split([2, 4], -1)
    return second.unflatten(-1, (2, 2)).view(-1, 2, 2), first + weight.sum()


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("function", [chunks_of_a_product, pieces_of_a_product, saved_heads])
def test_parts_of_what_the_graph_makes(function, gradients):
    calls = [(torch.randn(n, 6), torch.randn(6, 9)) for n in (3, 5, 7)]
    calls = [[x.requires_grad_(gradients) for x in call] for call in calls]
    assert cut_at(check(function, *calls, dynamic=True, graphs=1, rtol=1e-4, atol=1e-5)) == []


def test_chunks_of_an_input():
    records = check(returned_chunks, *((torch.randn(n, 6), torch.randn(6)) for n in (3, 5, 7)), dynamic=True, graphs=1)
    assert cut_at(records) == []


def test_chunks_of_an_input_with_gaps():
    records = check(reshaped_chunks, *((torch.randn(n, 6), torch.randn(6)) for n in (3, 5, 7)), dynamic=True, graphs=1)
    assert "aten.view.default" in cut_at(records)
