"""Which views among a graph's results run by themselves: a view that one of several results of an operator (`chunk`) gives is like another."""

import torch

from tests.frontend.against_eager import check, cut_at, leaf


def saved_chunks(x, weight):
    """The backward saves views of the product, each of which begins elsewhere in it."""
    query, key, value = (x @ weight).chunk(3, -1)
    return (query.sin() @ key.t()) @ value


def returned_chunks(x, weight):
    first, second, third = x.chunk(3, -1)
    return first.t(), second * weight.sum(), third


def reshaped_chunks(x, weight):
    """Of sizes that change, a view of every other element cannot be told from a copy."""
    first, second = x.split([2, 4], -1)
    return second.unflatten(-1, (2, 2)).view(-1, 2, 2), first + weight.sum()


def test_chunks_of_what_the_graph_makes():
    records = check(
        saved_chunks, *((leaf(n, 6), leaf(6, 9)) for n in (3, 5, 7)), dynamic=True, graphs=1, rtol=1e-4, atol=1e-5
    )
    assert cut_at(records) == []


def test_chunks_of_an_input():
    records = check(returned_chunks, *((torch.randn(n, 6), torch.randn(6)) for n in (3, 5, 7)), dynamic=True, graphs=1)
    assert cut_at(records) == []


def test_chunks_of_an_input_with_gaps():
    records = check(reshaped_chunks, *((torch.randn(n, 6), torch.randn(6)) for n in (3, 5, 7)), dynamic=True, graphs=1)
    assert "aten.view.default" in cut_at(records)
