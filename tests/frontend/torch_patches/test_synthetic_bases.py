"""Outputs that are views of inputs over one memory, one of them written: where they lie, and what they are for autograd."""

import pytest
import torch


def inputs(*, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    memory = torch.arange(80.0).requires_grad_(train) * 1
    return memory, memory[2:22].view(5, 4)


def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x[0] = 5
    return y.detach(), y[1:].t(), x[3:].detach(), x.view(-1), x.detach()


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_they_are_eagers(dynamic, train):
    call = torch.compile(program, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    for _ in range(2):
        given, left = inputs(train=train), inputs(train=train)
        for got, want in zip(call(*given), program(*left), strict=True):
            assert torch.equal(got, want) and got.requires_grad == want.requires_grad
            assert (got.stride(), got.storage_offset()) == (want.stride(), want.storage_offset())
            assert got.untyped_storage().data_ptr() == given[0].untyped_storage().data_ptr()
            # Of symbolic sizes AOTAutograd makes no view again by what was noted of it, `detach` neither.
            assert got._is_view() == want._is_view() or (dynamic and not train)
