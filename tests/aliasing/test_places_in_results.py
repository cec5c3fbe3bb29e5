"""`as_strided` of what a graph itself makes: no element is read or written that eager would not, whatever the sizes of the call."""

import pytest
import torch

from bascule.errors import FallbackWarning

START = 40  # where inputs begin in their storage


def of_a_result(x):
    return (x + 1).as_strided((6,), (1,), 1) * 2


def with_its_size(x):
    return (x + 1).as_strided((x.shape[0] - 1,), (1,), 1) * 2


def of_a_view_of_a_result(x):
    return (x + 1)[2:].as_strided((3,), (1,), 1) * 2


def after_a_write(x):
    x[:2].zero_()
    return x.as_strided((3,), (1,), START + 1) + 1


def after_two_writes(x):
    x[0] = 5
    x[2:].fill_(3)
    return x.as_strided((3,), (1,), START + 1).amax()


def of_a_view_after_a_write(x):
    x[0] = 5
    return x[1:].as_strided((3,), (1,), START + 1) + 1


def around_it_after_a_write(x):
    x[0] = 5
    return x.as_strided((4,), (1,), START - 2) + 1


def beyond_the_end(x):
    return (x + 1).as_strided((x.shape[0] + 5,), (1,)) + 1


def beyond_the_end_by_its_place(x):
    return (x + 1).as_strided((3,), (1,), x.shape[0] - 1) + 1


def beyond_an_input(x):
    return x.as_strided((x.shape[0] + START,), (1,)) + 1


FUNCTIONS = (
    of_a_result,
    with_its_size,
    of_a_view_of_a_result,
    after_a_write,
    after_two_writes,
    of_a_view_after_a_write,
    around_it_after_a_write,
    beyond_the_end,
    beyond_the_end_by_its_place,
    beyond_an_input,
)


def given(size: int, start: int = START) -> torch.Tensor:
    memory = torch.arange(float(2 * START)) + 1
    return torch.empty(0).set_(memory.untyped_storage(), start, (size,), (1,))


def outcome(function, size: int, start: int = START):
    """Its results, and the storage of its input after it; or that it raises."""
    x = given(size, start)
    try:
        found = function(x)
    except RuntimeError as error:
        return "out of bounds" if "setStorage" in str(error) else error
    return found.tolist(), torch.empty(0).set_(x.untyped_storage()).tolist()


@pytest.mark.filterwarnings("ignore::bascule.errors.FallbackWarning")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_elements_are_eagers(function, dynamic):
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    for size, start in ((8, START), (10, START), (5, START), (9, START), (9, START - 1), (7, START + 1), (8, START)):
        assert outcome(compiled, size, start) == outcome(function, size, start)


def test_what_lies_around_a_result_is_told_of():
    compiled = torch.compile(around_it_after_a_write, backend="bascule", dynamic=True)
    with pytest.warns(FallbackWarning, match=r"takes elements that \w+, a result inside of the graph, does not have"):
        compiled(given(8))
    with pytest.raises(Exception, match="a result inside of the graph"):
        torch.compile(around_it_after_a_write, backend="bascule", options={"fallback": "error"})(given(8))


@pytest.mark.parametrize(
    "view",
    [
        lambda v: v.unsqueeze(0)[1:],
        lambda v: v[1:, None][:, 1:],
        lambda v: v.view(2, 1, 2, 4)[1:, 1:],
    ],
)
def test_a_view_without_elements_lies_where_eagers_does(view):
    def program(x):
        return (view(x * 1),)  # not a view of an input: those AOTAutograd makes

    x = torch.randn(4, 4)
    (wanted,), (found,) = program(x), torch.compile(program, backend="bascule", fullgraph=True)(x)
    assert wanted.numel() == 0
    assert wanted.storage_offset() > 0
    places = [(y.shape, y.storage_offset(), y.untyped_storage().nbytes()) for y in (found, wanted)]
    assert places[0] == places[1]


PLACES = {
    "a remainder": lambda x: x.flatten()[x.shape[0] % x.numel() :],
    "a quotient": lambda x: x.flatten()[x.numel() // x.shape[1] :],
    "a remainder of rows": lambda x: x.view(-1)[x.shape[1] % x.numel() :][: x.shape[0]],
    "of a view of a view": lambda x: x.t().t().flatten()[x.shape[0] % x.numel() :][x.shape[1] % x.shape[0] :],
    "an element": lambda x: x.flatten()[(x.shape[0] + 1) % x.numel()],
}


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("name", PLACES)
def test_places_by_remainders_of_sizes(name, target):
    """Composed maps do not show that they are places in memory."""
    torch._dynamo.reset()
    compiled = torch.compile(
        PLACES[name], backend="bascule", dynamic=True, options={"target": target, "on_error": "raise"}
    )
    for sizes in ((5, 3), (4, 7), (3, 9)):
        x = torch.randn(sizes)
        got, want = compiled(x), PLACES[name](x)
        assert (got.storage_offset(), got.shape, got.stride()) == (want.storage_offset(), want.shape, want.stride())
        assert torch.equal(got, want)
        got.add_(1)  # written through to the input
        assert torch.equal(got, PLACES[name](x))
