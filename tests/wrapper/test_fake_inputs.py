"""Programs that run under a `FakeTensorMode` of their own: what is compiled gives fake tensors there, like eager's, and real ones elsewhere."""

import pytest
import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_leaves


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def product(x, w):
    return torch.softmax(x @ w, -1).t()


def written(x, w):
    x.mul_(2)
    w[1:].add_(x[1:])
    return x.view(-1), w


def constant(x, w):
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.arange(4) + w.shape[0], 3


def drawn(x, w):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(w)


def described(result):
    """All that a fake tensor tells."""
    tensors = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
    assert tensors and all(isinstance(x, FakeTensor) for x in tensors)
    return [(x.shape, x.stride(), x.dtype, x.device, x.requires_grad, x.storage_offset()) for x in tensors]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("function", "under"),
    [(product, True), (product, False), (written, True), (constant, True), (drawn, True), (drawn, False)],
)
def test_fake_inputs_give_fake_results(function, under, dynamic):
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    inputs = [torch.randn(4, 4) for _ in range(2)]
    for _ in range(2):
        mode = FakeTensorMode()
        fakes = [[mode.from_tensor(x) for x in inputs] for _ in range(2)]
        if under:
            with mode:
                got, wanted = compiled(*fakes[0]), function(*fakes[1])
        else:
            got, wanted = compiled(*fakes[0]), function(*fakes[1])
        assert described(got) == described(wanted)
        # Real ones, in between.
        results = []
        for call in (compiled, function):
            torch.manual_seed(1)
            given = [x.clone() for x in inputs]
            results.append((call(*given), given))
        if function is not drawn:
            torch.testing.assert_close(*results)
        assert all(type(x) is torch.Tensor for x in tree_leaves(results[0]) if not isinstance(x, int))


def test_a_training_step():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU())
    with FakeTensorMode():
        fake = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU())
        out = torch.compile(fake, backend="bascule", options={"on_error": "raise"})(torch.randn(5, 4))
        out.sum().backward()
    assert described([p.grad for p in fake.parameters()])[0][0] == (8, 4)
    x = torch.randn(5, 4)
    compiled = torch.compile(model, backend="bascule", options={"on_error": "raise"})
    model.eval()
    torch.testing.assert_close(compiled(x), model(x))


def test_a_subclass_around_fake_tensors():
    mode = FakeTensorMode()
    with mode:
        x = TwoTensor(torch.randn(3), torch.randn(3))
        got = torch.compile(lambda x: torch.sin(x) * 2, backend="bascule", options={"on_error": "raise"})(x)
    assert isinstance(got, TwoTensor) and isinstance(got.a, FakeTensor) and got.shape == (3,)
