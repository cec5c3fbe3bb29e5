"""Writes to tensors that were made in inference mode: as eager has it, outside of the mode they are refused."""

import pytest
import torch

OPTIONS = {"on_error": "raise", "fallback": "error"}


def written_through_a_view(a):
    a[1:].t().add_(1)
    return a * 2


def made(by_inference):
    with torch.inference_mode(by_inference):
        return torch.ones(3, 3)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_write_is_refused_outside_of_the_mode(dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(written_through_a_view, backend="bascule", dynamic=dynamic, options=OPTIONS)
    for inside, by_inference in (
        (True, True),
        (False, True),
        (False, False),
        (True, True),
        (False, True),
        (True, False),
    ):
        x = made(by_inference)
        with torch.inference_mode(inside):
            if by_inference and not inside:
                with pytest.raises(RuntimeError, match="outside InferenceMode is not allowed"):
                    compiled(x)
                continue
            wanted = written_through_a_view(x.clone())
            found = compiled(x)
        assert torch.equal(found, wanted) and found.is_inference() == wanted.is_inference()
        assert x[1, 0] == 2


def test_what_is_only_read_is_taken():
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, b: b.add_(a), backend="bascule", options=OPTIONS)
    assert torch.equal(compiled(made(True), made(False)), torch.full((3, 3), 2.0))
