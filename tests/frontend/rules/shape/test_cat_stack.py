"""`cat` and `stack` of many tensors: who copies them, on a GPU and on a CPU."""

import pytest
import torch

from tests.frontend.interpreted import compiled

CAT, STACK = {"aten.cat.default"}, {"aten.stack.default"}


@pytest.mark.parametrize(
    "count, shape, by_aten",
    [
        (8, (300,), False),
        (32, (300,), False),
        (33, (300,), True),
        (100, (), False),
        (100, (16,), False),
        (129, (), True),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_gpu_leaves_many_pieces_to_aten(count, shape, by_aten, target):
    pieces = [torch.randn(shape) for _ in range(count)]
    functions = [(lambda x: torch.stack([y * 2 for y in x]), STACK)]
    functions += [(lambda x: torch.cat([y * 2 for y in x]), CAT)] if shape else []
    for function, operator in functions:
        call, backend = compiled(function, target=target)
        assert torch.equal(call(pieces), function(pieces))
        assert backend.called() == (operator if by_aten and target == "cuda" else set())


def test_one_tensor_many_times_is_one_piece():
    x, y = torch.randn(300), torch.randn(300)
    call, backend = compiled(lambda x, y: torch.stack([x, y] * 40), target="cuda")
    assert torch.equal(call(x, y), torch.stack([x, y] * 40))
    assert not backend.called()


def test_sizes_that_are_not_known():
    pieces = [torch.randn(n) for n in range(2, 42)]
    call, backend = compiled(torch.cat, target="cuda", dynamic=True)
    assert torch.equal(call(pieces), torch.cat(pieces))
    assert backend.called() == CAT
