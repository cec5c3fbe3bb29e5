"""Writes that a functional graph does not follow: through elements that share places, and to inputs over one storage that are no views."""

import warnings

import pytest
import torch
from torch.utils._pytree import tree_leaves

import bascule
from bascule.errors import FallbackWarning, UnsupportedError
from bascule.reporting.counters import reset_counters


def zeroed_slice(a):
    a[:2].zero_()
    return a + 0


def zeroed_row(a):
    a[0].zero_()
    return a * 2


def written_view_of_an_input(a):
    a.as_strided((3, 3), (2, 1))[:2].zero_()
    return a + 1


def written_view_of_an_intermediate(a):
    b = (a * 2).as_strided((3, 3), (2, 1))
    b[0].add_(1)
    return b + 0


def read_where_expanded(a):
    found = a.unsqueeze(0).expand(3, *a.shape).sum(0)
    a.mul_(2)
    return found


def both(a, b):
    a.mul_(2)
    return a + 0, b[1:]


def read_beside(a, b):
    a.mul_(2)
    return a + 0, b * 2


def first_elements(a, b):
    b.mul_(2)
    return a[:2], b[:3].unsqueeze(0), a.t()


def in_transforms(a):
    tangents = torch.func.jvp(lambda x: x * a, (a,), (a,))
    return torch.vmap(lambda x: x * a + x)(a), torch.func.grad(lambda x: (x * a).sum())(a), tangents


def written_in_vmap(a):
    torch.vmap(lambda x: x.zero_())(a[:2])
    return a * 2


def strided(*strides):
    return lambda storage: [storage.as_strided((4, 4), strides)]


def set_over(*sizes, dtype=torch.float32, offset=0):
    def inputs(storage):
        return [torch.empty(0, dtype=dtype).set_(storage.untyped_storage(), offset, sizes), storage]

    return inputs


# a function, its inputs over a storage, whether it runs as eager
CASES = {
    "a slice": (zeroed_slice, strided(3, 1), True),
    "a row of expanded rows": (zeroed_row, strided(0, 1), True),
    "a row of what is unfolded": (zeroed_row, strided(1, 1), True),
    "nothing shared": (zeroed_slice, strided(4, 1), False),
    "nothing shared, gaps": (zeroed_slice, strided(2, 9), False),
    "a view of an input": (written_view_of_an_input, strided(4, 1), True),
    "a view of an intermediate": (written_view_of_an_intermediate, strided(4, 1), True),
    "read, not written": (read_where_expanded, strided(4, 1), False),
    "one storage": (both, set_over(48), True),
    "one storage, reversed": (lambda a, b: both(b, a), set_over(48, offset=8), True),
    "one storage, another dtype": (both, set_over(12, dtype=torch.int64, offset=2), True),
    "a detached part": (both, lambda s: [s.detach()[3:20], s], True),
    "two views": (read_beside, lambda s: [s[3:20], s[10:30]], False),
    "two views, one of them returned": (both, lambda s: [s[3:20], s[10:30]], False),
    "two views, of as many": (lambda a, b: both(b, a), lambda s: [s[3:20], s[10:27]], False),
    "a view and its base": (first_elements, lambda s: [s, s[3:20]], False),
    "two views that do not meet": (first_elements, lambda s: [s[3:20], s[20:30]], False),
    "columns and rows": (first_elements, lambda s: [s.view(8, 8)[1:4], s.view(8, 8)[:, 2:]], False),
    "in function transforms": (in_transforms, strided(0, 1), False),
    "written in a function transform": (written_in_vmap, strided(3, 1), True),
    "parts of one storage": (both, lambda s: [set_over(8)(s)[0], set_over(8, offset=8)(s)[0]], False),
}


def lying(outputs, storage):
    """Where the outputs begin in their storages, and whether that is the one of the inputs."""
    memory = storage.untyped_storage().data_ptr()
    return [(x.storage_offset(), x.untyped_storage().data_ptr() == memory) for x in tree_leaves(outputs)]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_storage_is_as_eager_leaves_it(name, dynamic, train):
    function, inputs, as_eager = CASES[name]
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    for _ in range(2):
        storage = torch.randn(64)
        other = storage.clone()
        with warnings.catch_warnings(record=True) as told, torch.set_grad_enabled(train):
            warnings.simplefilter("always", FallbackWarning)
            found = compiled(*inputs(storage))
        with torch.set_grad_enabled(train):
            wanted = function(*inputs(other))
        assert torch.equal(
            storage.view(torch.int32), other.view(torch.int32)
        )  # NaN, as another dtype leaves it, is itself
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
        assert lying(found, storage) == lying(wanted, other)
        first = [w for w in told if issubclass(w.category, FallbackWarning)]
        assert len(first) <= as_eager
    assert bool(bascule.counters()["fallbacks"]) == as_eager


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    reset_counters()


def test_strides_that_one_compiled_graph_serves_are_guarded():
    compiled = torch.compile(zeroed_slice, backend="bascule")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        for stride in (4, 5, 6, 3, 2, 8):
            storage = torch.randn(64)
            other = storage.clone()
            found, wanted = (
                compiled(storage.as_strided((4, 4), (stride, 1))),
                zeroed_slice(other.as_strided((4, 4), (stride, 1))),
            )
            assert torch.equal(found, wanted) and torch.equal(storage, other)


def test_the_line_is_named_and_fallback_error_refuses():
    with pytest.warns(FallbackWarning, match=r"test_untracked_writes.py:\d+: zero_ writes"):
        torch.compile(zeroed_slice, backend="bascule")(*strided(3, 1)(torch.randn(64)))
    torch._dynamo.reset()
    with pytest.raises(UnsupportedError, match="share places in memory"):
        torch.compile(zeroed_slice, backend="bascule", options={"fallback": "error"})(*strided(3, 1)(torch.randn(64)))
