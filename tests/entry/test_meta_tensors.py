"""Tensors on the device 'meta', alone and beside tensors on the CPU: no kernels for them, sizes and strides as in eager, no warning."""

import pytest
import torch

from bascule.entry.backend import compile_dynamo_graph

META = torch.empty(3, 4, device="meta")
CASES = {
    "pointwise and a copy": (lambda x: (x.sin() + 1).t().contiguous(), META),
    "views": (lambda x: (x.t(), x[1:], x.view(12)), META),
    "a product": (lambda x: (x @ x.t()).double(), META),
    "beside the CPU's": (lambda x, y: (x * 2, y.cos() + y.sum(), x.shape[0] * y), META, torch.randn(5, 6)),
    "times a number on the CPU": (lambda x, s: (x * s, s + 1), META, torch.tensor(2.0)),
    "made on the way": (lambda y: (torch.zeros(3, 2, device="meta") + 1, y.to("meta"), y + 1), torch.randn(3)),
    "written": (lambda x, y: (x.add_(1), y.mul_(2)), META.clone(), torch.randn(3)),
}


def kind(x):
    return x.device, x.dtype, x.shape, x.stride()


def compiled(function, records, dynamic):
    def backend(gm, inputs):
        return compile_dynamo_graph(gm, inputs, on_record=records.append)

    return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)


def same(wanted, got):
    for x, y in zip(*(tuple(each) if isinstance(each, tuple) else (each,) for each in (wanted, got)), strict=True):
        assert kind(x) == kind(y)
        if not x.is_meta:
            torch.testing.assert_close(x, y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_as_in_eager(name, dynamic):
    function, *inputs = CASES[name]
    records = []
    got = compiled(function, records, dynamic)(*(x.clone() for x in inputs))
    same(function(*(x.clone() for x in inputs)), got)
    if all(x.is_meta for x in inputs):
        assert not any(record.compiled and record.summary.kernels for record in records)


@pytest.mark.filterwarnings("error")
def test_gradients():
    records, (x, y) = [], (META.clone().requires_grad_(), torch.randn(3, requires_grad=True))
    a, b = compiled(lambda x, y: (x.sin() * 2, y.sin() * 2), records, False)(x, y)
    torch.autograd.backward([a, b], [torch.empty_like(a), torch.ones(3)])
    assert kind(x.grad) == kind(x)
    torch.testing.assert_close(y.grad, 2 * y.detach().cos())
