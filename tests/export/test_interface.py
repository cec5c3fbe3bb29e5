"""Inputs of a program compiled ahead of time: dynamic sizes and what is known of them, memory of any kind, captured constants."""

import math
import pickle
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from bascule.runtime.packages.container import PackageError, pack, unpack
from bascule.runtime.packages.exported_program import FORMAT
from torch.export import Dim, export

import bascule
from bascule.errors import UnsupportedError


class Calls(torch.nn.Module):
    """`function` as a module, with a weight."""

    def __init__(self, function):
        super().__init__()
        self.function, self.linear = function, torch.nn.Linear(4, 4)

    def forward(self, x, y=None):
        return self.function(self, x) if y is None else self.function(self, x, y)


def compiled(tmp_path, function, *args, options=None, **kwargs):
    module = Calls(function)
    path = tmp_path / "program"
    bascule.aot_compile(export(module, args, **kwargs), path, options=options)
    return module, bascule.aot_load(path)


HALVES = Dim("halves", min=1, max=50)
SHORTER = Dim("shorter", min=2, max=50)


@pytest.mark.parametrize(
    ("function", "dims", "sizes", "refused"),
    [
        (
            lambda m, x: m.linear(x).softmax(0),
            (Dim.AUTO,),
            [(3,), (9,)],
            [
                (
                    (1,),
                    r"size of input 0 in dimension 0 is 1, the program takes 2 to .* \(export it with Dim\(name, min=",
                )
            ],
        ),
        (lambda m, x: m.linear(x).softmax(0), (Dim("rows", min=0),), [(3,), (1,), (0,)], []),
        # A size of which half is a symbol, and one that is another size and one more.
        (
            lambda m, x: x.view(-1, 2, 4).sum(1) * 2,
            (2 * HALVES,),
            [(8,), (4,), (30,)],
            [((9,), "sizes"), ((102,), "51")],
        ),
        (lambda m, x, y: x[1:] * y, (SHORTER + 1, SHORTER), [(4, 3), (9, 8)], [((9, 9), "sizes")]),
        (
            lambda m, x, y: x + y if x.shape[0] > y.shape[0] - 1 else x,
            (Dim.AUTO, Dim.AUTO),
            [(4, 4)],
            [((5, 4), "sizes")],
        ),
        # What the program asked of sizes while it was traced.
        (
            lambda m, x: x.view(-1, 2, 4).sum(1),
            (Dim.AUTO,),
            [(6,), (4,)],
            [((5,), "%.* = 5, the size of input 0 in dimension 0")],
        ),
        (lambda m, x: x * 2 if x.shape[0] > 5 else x + 1, (Dim.AUTO,), [(6,), (9,)], [((5,), "takes 6|> 5")]),
        (
            lambda m, x, y: x.sum() + y.sum() if x.shape[0] * y.shape[0] > 20 else x.sum() * y.sum(),
            (Dim.AUTO, Dim.AUTO),
            [(6, 5), (3, 9)],
            [((4, 5), "> 20 holds")],
        ),
    ],
)
def test_dynamic_sizes(tmp_path, function, dims, sizes, refused):
    rows = sizes[0]
    inputs = [torch.randn(n, 4) for n in rows]
    shapes = dict(zip(("x", "y"), ({0: dim} for dim in dims)))
    module, program = compiled(tmp_path, function, *inputs, dynamic_shapes=shapes)
    for rows in sizes:
        inputs = [torch.randn(n, 4) for n in rows]
        torch.testing.assert_close(program(*inputs), module(*inputs))
    for rows, says in refused:
        with pytest.raises(ValueError, match=says):
            program(*(torch.randn(n, 4) for n in rows))


def test_a_dynamic_input_of_other_strides(tmp_path):
    shapes = {"x": {0: Dim("a", min=2), 1: Dim("b", min=2)}}
    module, program = compiled(
        tmp_path, lambda m, x: x.transpose(0, 1) * 2 + m.linear(x).sum(), torch.randn(5, 6, 4), dynamic_shapes=shapes
    )
    for x in (torch.randn(7, 3, 4), torch.randn(3, 7, 4).transpose(0, 1), torch.randn(7, 3, 8)[..., ::2]):
        torch.testing.assert_close(program(x), module(x))


def test_a_stride_that_varies(tmp_path):
    """The rows of a tensor with gaps lie as far apart as those of a call do; where compiling settles how far, others are copied."""
    shapes = {"x": {0: Dim("rows", min=2)}}
    gaps = torch.randn(5, 9)[:, :4]
    for function in (lambda m, x: x * 2 + m.linear(x), lambda m, x: x * 2 if x.stride(0) == 9 else x):
        module, program = compiled(tmp_path, function, gaps, dynamic_shapes=shapes)
        for x in (gaps, torch.randn(7, 9)[:, :4]):
            torch.testing.assert_close(program(x), module(x))


def test_a_number_that_varies(tmp_path):
    shapes = {"x": {0: Dim("rows", min=0)}, "y": Dim.DYNAMIC}
    module, program = compiled(tmp_path, lambda m, x, n: (x * n, n + 1), torch.randn(5, 4), 3, dynamic_shapes=shapes)
    for rows, number in ((5, 4), (0, 2), (7, 9)):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(program(x, number), module(x, number))
    for number, says in ((2.5, "input 1 is float, the program takes int"), (True, "input 1 is bool")):
        with pytest.raises(ValueError, match=says):
            program(torch.randn(5, 4), number)


@pytest.mark.parametrize("constant", [2, 2.0, True, 0.0, -0.0, math.nan, "2", None])
def test_a_constant_is_of_one_kind(tmp_path, constant):
    """Numbers that are equal may compute other results: of other dtypes, or of another sign."""

    def function(m, x):
        k, x = x["constant"], x["tensor"]
        return x * k if isinstance(k, int | float) else x

    x = torch.tensor([3, 4])
    module, program = compiled(tmp_path, function, {"tensor": x, "constant": constant})
    for given in (2, 2.0, True, 1, 0.0, -0.0, 0, math.nan, "2", None, torch.tensor(2)):
        if repr(given) == repr(constant):
            got, wanted = (call({"tensor": x, "constant": given}) for call in (program, module))
            assert got.dtype == wanted.dtype
            torch.testing.assert_close(got, wanted, equal_nan=True)
        else:
            with pytest.raises(ValueError, match=r"input 1 is .*, the program was compiled for"):
                program({"tensor": x, "constant": given})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_around_a_call_changes_nothing(tmp_path, dtype):
    """Operators of ATen would return 16 bits where kernels read 32."""

    def function(m, x):
        y = m.linear(x)
        return F.conv1d((y @ y.t()).softmax(-1).view(1, 4, 4), m.linear.weight.view(4, 4, 1)).sin()

    module, program = compiled(tmp_path, function, torch.randn(4, 4))
    x = torch.randn(4, 4)
    with torch.autocast("cpu", dtype):
        got = program(x)
    torch.testing.assert_close(got, module(x))


def test_tensors_of_another_layout_are_refused(tmp_path):
    _, program = compiled(tmp_path, lambda m, x: x * 2, torch.randn(4, 4))
    with pytest.raises(
        ValueError, match=r"is torch.float32 on cpu \(torch.sparse_coo\), the program takes torch.float32 on cpu"
    ):
        program(torch.randn(4, 4).to_sparse())


def test_a_number_that_is_a_size(tmp_path):
    def function(m, x, n):
        return x * n if n == x.shape[0] else x

    shapes = {"x": {0: Dim.AUTO}, "y": Dim.AUTO}
    module, program = compiled(tmp_path, function, torch.randn(5, 4), 5, dynamic_shapes=shapes)
    x = torch.randn(7, 4)
    torch.testing.assert_close(program(x, 7), module(x, 7))
    with pytest.raises(ValueError, match=r"input 1 is 6, the program takes s\d+, .*: 7"):
        program(x, 6)


def test_memory_that_is_negated_or_conjugated(tmp_path):
    module, program = compiled(tmp_path, lambda m, x: x.mul_(2).sin(), torch.randn(5, 4))
    values = torch.randn(5, 4)
    mine, eager = torch._neg_view(values.clone()), torch._neg_view(values.clone())
    torch.testing.assert_close(program(mine), module(eager))
    torch.testing.assert_close(mine, eager)
    z = torch.randn(5, dtype=torch.complex64)
    module, program = compiled(tmp_path, lambda m, x: torch.view_as_real(x * 1).sin(), z)
    torch.testing.assert_close(program(z.conj()), module(z.conj()))


def test_inputs_that_share_memory(tmp_path):
    """Those that are only read may; what is written there is known to no other input of a program."""
    x = torch.randn(6, 4)
    module, program = compiled(tmp_path, lambda m, x, y: m.linear(x) + y, x[:4], torch.randn(4, 4))
    torch.testing.assert_close(program(x[:4], x[2:]), module(x[:4], x[2:]))
    _, program = compiled(tmp_path, lambda m, x, y: x.add_(1) * y, torch.randn(4, 4), torch.randn(4, 4))
    for y in (x[2:], x[:4], x[1:2].expand(4, 4)):
        with pytest.raises(ValueError, match="input 0, which the program writes, shares memory with input 1"):
            program(x[:4], y)

    rows = torch.randn(8, 4)
    want = (rows[:4] + 1) * rows[4:]
    torch.testing.assert_close(program(rows[:4], rows[4:]), want)


def test_inputs_that_overlap_themselves(tmp_path):
    """Those that are only read may; what is written at one index is known at no other, in the program as at a call."""
    x = torch.randn(24)
    rows, unfolded = x[:4].expand(4, 4), x.as_strided((4, 4), (3, 1), 2)
    module, program = compiled(tmp_path, lambda m, x: m.linear(x) + 1, torch.randn(4, 4))
    for y in (rows, unfolded):
        torch.testing.assert_close(program(y), module(y))
    _, program = compiled(tmp_path, lambda m, x: x[:2].zero_() + 1, torch.randn(4, 4))
    for y in (rows, unfolded):
        with pytest.raises(ValueError, match="input 0, which the program writes, has elements that share memory"):
            program(y)
    for y in (rows, unfolded):
        with pytest.raises(UnsupportedError, match=r"test_interface.py:\d+: zero_.* share places in memory"):
            compiled(tmp_path, lambda m, x: x[:2].zero_() + 1, y)
    with pytest.raises(UnsupportedError, match="share places in memory"):
        compiled(tmp_path, lambda m, x: x.as_strided((3, 3), (2, 1))[:2].zero_() + 1, torch.randn(4, 4))


def test_an_input_whose_elements_share_memory(tmp_path):
    module, program = compiled(tmp_path, lambda m, x: m.linear(x), torch.randn(1, 4).expand(5, 4))
    x = torch.randn(1, 4).expand(5, 4)
    torch.testing.assert_close(program(x), module(x))
    with pytest.raises(
        ValueError, match=r"strides \[4, 1\], and the program was compiled for one whose elements share memory"
    ):
        program(torch.randn(5, 4))


def test_a_captured_constant_and_frozen_weights(tmp_path):
    def function(m, x):
        return m.linear(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])

    x = torch.randn(5, 4)
    module, program = compiled(tmp_path, function, x, options={"freezing": True})
    torch.testing.assert_close(program(x), module(x))
    assert not program.weights


@pytest.mark.parametrize("format_", [1, FORMAT - 1, FORMAT + 1])
def test_another_versions_package_is_refused(tmp_path, format_):
    compiled(tmp_path, lambda m, x: x * 2, torch.randn(5, 4))
    path = tmp_path / "program"
    description, blobs = unpack(path.read_bytes())
    path.write_bytes(pack({**description, "format": format_}, blobs))
    with pytest.raises(PackageError, match="another version"):
        bascule.aot_load(path)


class Chosen(torch.nn.Module):
    def forward(self, x, i):
        return x.gather(0, i) * 2


def test_an_index_out_of_range(tmp_path):
    path, x = tmp_path / "program.bascule", torch.randn(4)
    bascule.aot_compile(export(Chosen(), (x, torch.tensor([1, 3]))), path)
    program = bascule.aot_load(path)
    with pytest.raises(RuntimeError, match="index 4 is out of bounds for dimension 0 with size 4"):
        program(x, torch.tensor([1, 4]))
    torch.testing.assert_close(program(x, torch.tensor([0, 3])), x[[0, 3]] * 2)


class Largest(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        (lambda x: x.amax(0), True),
        (lambda x: x.min(dim=0).values, True),
        (lambda x: x.argmax(), True),
        (lambda x: x.max(), True),
        (lambda x: x.amax(1), False),
        (lambda x: (x.softmax(0), x.sum(0)), False),
    ],
)
def test_the_largest_of_no_elements(tmp_path, function, refused):
    path, module = tmp_path / "program.bascule", Largest(function)
    bascule.aot_compile(export(module, (torch.randn(4, 3),), dynamic_shapes=({0: Dim("n", min=0)},)), path)
    program = bascule.aot_load(path)
    for rows in (1, 5):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), module(x))
    x = torch.randn(0, 3)
    if refused:
        with pytest.raises((IndexError, RuntimeError)):
            module(x)
        with pytest.raises(ValueError, match=r"the program was exported for sizes of which .* != 0 holds"):
            program(x)
    else:
        torch.testing.assert_close(program(x), module(x))


def test_copies_and_pickles(tmp_path):
    module, program = compiled(tmp_path, lambda m, x: m.linear(x), torch.randn(3, 4))
    x, copy = torch.randn(3, 4), deepcopy(program)
    copy.load_weights({"linear.weight": torch.zeros(4, 4)})
    torch.testing.assert_close(program(x), module(x))
    torch.testing.assert_close(copy(x), module.linear.bias.expand(3, 4))
    with pytest.raises(TypeError, match=r"loads its package by bascule\.aot_load"):
        pickle.dumps(program)
