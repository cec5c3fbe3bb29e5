"""Inputs that begin at other places of their storage from call to call, where the program counts from the storage's start.

Without gradients: AOTAutograd's backward of `as_strided` has the place of the first call's input in it, whatever the backend.
"""

import warnings

import pytest
import torch

import bascule
from bascule.errors import FallbackWarning


def taken(x):
    return x.as_strided((2, 2), (1, 1), 1) * 2


def of_a_view(x):
    return x[1:].exp(), x[1:].as_strided((3,), (2,), storage_offset=1).exp()


def written_into(x):
    return torch.as_strided_scatter(x, x[:3] * 2, (3,), (2,), 1) + 1


def relative(x):
    return x.as_strided((2, 2), (1, 1)) * 2


STORAGE = torch.randn(20)
PLACES = (slice(2, 12), slice(0, 10), slice(9, 19))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [taken, of_a_view, written_into, relative])
def test_elements_are_those_of_the_storage(function, dynamic):
    call = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FallbackWarning)
        for place in (*PLACES, *PLACES):
            x = STORAGE[place]
            for got, want in zip(call(x), function(x), strict=True):
                torch.testing.assert_close(got, want, rtol=1e-6, atol=0)
    told = [str(w.message) for w in told if w.category is FallbackWarning]
    assert len(told) == (function is not relative)
    for message in told:
        assert "of its storage, and began at" in message and "test_storage_offset_guard.py" in message


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("function", [taken, written_into])
def test_what_is_outside_of_the_tensor_is_left_to_the_operator(function, place):
    """A copy of an input, and the result of a compiled graph, have memory for their own elements only."""
    outside = place.start > 1
    assert ("lie outside of the tensor" in str(bascule.explain(function, STORAGE[place]))) == outside


def test_a_package_refuses_another_place(tmp_path):
    class Taken(torch.nn.Module):
        forward = staticmethod(taken)

    path = tmp_path / "program"
    bascule.aot_compile(torch.export.export(Taken(), (STORAGE[:10],)), path)
    program = bascule.aot_load(path)
    torch.testing.assert_close(program(STORAGE[:10]), taken(STORAGE))
    with pytest.raises(ValueError, match="input 0 begins at element 2 of its storage, and in the export at 0"):
        program(STORAGE[2:12])
