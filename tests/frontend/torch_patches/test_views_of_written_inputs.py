"""Views that are returned of inputs which the graph writes, of dynamic sizes: they lie where eager's do, wherever the input begins."""

import pytest
import torch
from bascule.dialect.errors import UserError

GIVEN = {
    "from the start": lambda s, n: s[: 4 * n].view(n, 4),
    "from within": lambda s, n: s[2 : 2 + 4 * n].view(n, 4),
    "transposed, from within": lambda s, n: s[2 : 2 + 4 * n].view(4, n).t(),
    "with gaps": lambda s, n: s[3:].as_strided((n, 4), (7, 1)),
}
VIEWS = {
    "expanded": lambda x: x.expand(3, *x.shape),
    "rows": lambda x: x[1:],
    "a column": lambda x: x[:, 1],
    "split": lambda x: x.unflatten(0, (-1, 1)),
    "by places": lambda x: x.as_strided((2, 2), (1, 2), x.storage_offset()),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("given", GIVEN)
def test_a_view_of_a_written_input(given, view):
    def written(x):
        x.add_(1)
        return VIEWS[view](x)

    torch._dynamo.reset()
    call = torch.compile(written, backend="bascule", dynamic=True)
    for size in (4, 5, 6):
        wanted, x = (GIVEN[given](torch.arange(1.0, 101), size) for _ in range(2))
        expected, got = written(wanted), call(x)
        assert torch.equal(got, expected) and torch.equal(x, wanted)
        assert (got.storage_offset(), got.stride()) == (expected.storage_offset(), expected.stride())
        got.zero_()
        expected.zero_()
        assert torch.equal(x, wanted), "it shares the input's memory"


def test_places_of_an_input_in_a_new_value_are_refused():
    """PyTorch traces the new value of a written input as if it began its storage."""

    def taken(x):
        x.add_(1)
        return x.as_strided((2, 2), (1, 2), x.storage_offset()) * 2

    torch._dynamo.reset()
    call = torch.compile(taken, backend="bascule", dynamic=True)
    x, wanted = (torch.arange(40.0)[2:18].view(4, 4) for _ in range(2))
    with pytest.raises(
        UserError, match=r"test_views_of_written_inputs.py:\d+.*counts from the start of an input's storage"
    ):
        call(x)
    torch.testing.assert_close(torch.compile(taken, backend="bascule", dynamic=False)(x), taken(wanted))
