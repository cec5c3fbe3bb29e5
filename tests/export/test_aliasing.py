"""Results of a program that are views of its inputs, parameters or buffers share their memory, as they do in eager."""

import pytest
import torch
from torch.export import Dim, export

import bascule


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.rand(3, 4))
        self.register_buffer("calls", torch.rand(3, 4))

    def forward(self, x, y):
        return self.function(self, x, y)


def reads(model, x, y):
    return x.view(-1), y[1:], x.unfold(1, 2, 1), x.diagonal(), x.expand(2, *x.shape), x + 1


def reinterprets(model, x, y):
    return x.view(torch.int32), torch.view_as_complex(x[1:].view(-1, 2, 2)), y.view(torch.uint8)[4:]


def writes(model, x, y):
    x.add_(1)
    y[1:].mul_(2)
    return x.view(-1), y[2:], x, y[1:].sum(), x * 2


def keeps(model, x, y):
    model.calls.add_(x.sum())
    return model.calls.t(), model.weight[1:], model.calls * model.weight


def copies(model, x, y):
    """The new value of `x` is a result of its own."""
    z = x * 2
    x.copy_(z)
    return z, x.t()


def chosen(model, x, y):
    """A part by itself before the view."""
    return x[1:], torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,)), y.masked_select(y > 0)


FUNCTIONS = [reads, reinterprets, writes, keeps, copies, chosen]


def ran(call, weights, x, y):
    """Results, where each lies (in which tensor, how, from which byte on), and all tensors after the call."""
    known = {"x": x, "y": y, **weights}
    bytes_before = {name: value.storage_offset() * value.itemsize for name, value in known.items()}
    results = call(x, y)
    lies = []
    for result in results:
        where = [n for n, v in known.items() if v.untyped_storage().data_ptr() == result.untyped_storage().data_ptr()]
        offset = result.storage_offset() * result.itemsize - bytes_before[where[0]] if where else None
        lies.append((where, result.shape, result.stride(), result.dtype, offset))
    return [result.clone() for result in results], lies, [value.detach().clone() for value in known.values()]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_results_lie_where_eagers_do(tmp_path, function, dynamic):
    model, path = Model(function), tmp_path / "program.bascule"
    rows = {0: Dim("rows", min=3, max=50)} if dynamic else None
    example = torch.rand(5, 4)[2:], torch.rand(7)  # an offset that another input does not have
    with torch.no_grad():
        bascule.aot_compile(export(model, example, dynamic_shapes=(rows, None)), path)
        program = bascule.aot_load(path)
        for count in (3, 6) if dynamic and function is not keeps else (3,):
            x, y = torch.randn(count, 4), torch.randn(7)
            wanted = ran(model, {"weight": model.weight, "calls": model.calls}, x.clone(), y.clone())
            known = {"weight": torch.empty(1), "calls": torch.empty(1), **program.weights}
            got = ran(program, known, x, y)
            torch.testing.assert_close(got[0], wanted[0])
            assert got[1] == wanted[1]
            if function is keeps:
                torch.testing.assert_close(got[2], wanted[2])
            else:
                torch.testing.assert_close(got[2][:2], wanted[2][:2])


def test_a_copied_input(tmp_path):
    """One of other strides than the program was compiled for: results are views of the copy, and right."""
    model, path = Model(writes), tmp_path / "program.bascule"
    bascule.aot_compile(export(model, (torch.rand(3, 4), torch.rand(7))), path)
    x, y = torch.rand(4, 3).t(), torch.rand(7)
    wanted = x + 1
    flat, *_ = bascule.aot_load(path)(x, y)
    torch.testing.assert_close(flat, wanted.reshape(-1))
    torch.testing.assert_close(x, wanted)
    assert flat.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_frozen_weights(tmp_path):
    """Constants of the program are nobody's to share."""
    model, path = Model(lambda model, x, y: (model.weight.t(), x + model.weight, x[1:])), tmp_path / "program.bascule"
    x, y = torch.rand(3, 4), torch.rand(7)
    with torch.no_grad():
        bascule.aot_compile(export(model, (x, y)), path, options={"freezing": True})
    got = bascule.aot_load(path)(x, y)
    torch.testing.assert_close(got, model(x, y))
    assert got[2].data_ptr() == x[1:].data_ptr()
