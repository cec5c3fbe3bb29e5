"""Programs compiled ahead of time in parts: control flow, sizes that data decides, operators that are not compiled."""

import subprocess
import sys

import pytest
import torch
from bascule.runtime.packages.container import PackageError, unpack
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, export

import bascule
from tests.blocked_imports import BLOCKED


class Calls(torch.nn.Module):
    """`function` as a module, with a weight."""

    def __init__(self, function):
        super().__init__()
        self.function, self.linear = function, torch.nn.Linear(4, 4)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def branches(m, x):
    return torch.cond(x.sum() > 0, lambda x: (m.linear(x).sin(), x + 1), lambda x: (x.cos(), x * 2), (x,))


def nested(m, x):
    def inner(x):
        return torch.cond(x.mean() > 1, lambda x: x * 3, lambda x: m.linear(x), (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x.cos(), (x,)) + 1


def loop(m, x):
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, m.linear(x).tanh()), (torch.tensor(0), x))


def steps(m, x):
    return scan(lambda carry, row: (carry * 0.5 + row, (m.linear(carry) * row).sin()), torch.ones(4), x)


def mapped(m, x):
    return map_over(lambda row, y: m.linear(row) * y, x, torch.full((4,), 2.0))


def masked(m, x):
    return m.linear(x[x[:, 0] > 0]).sin() * 2


def sliced(m, x):
    number = x[0, 0].int().abs().item()
    torch._check(number >= 0)
    torch._check(number <= x.shape[0])
    return m.linear(x[:number]).sin().sum(0), number


def distinct(m, x):
    return torch.unique(x.round()).sin()


FUNCTIONS = [branches, nested, loop, steps, mapped, masked, sliced, distinct]


def inputs(rows):
    """Inputs for all ways through `FUNCTIONS`: none of the sums, means and first elements is near where the way changes."""
    x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))
    x[0, 0] = 2.5
    return [x - 3, x + 0.5, x + 3]


def compare(program, module, *args):
    torch.testing.assert_close(program(*args), module(*args))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
def test_control_flow_and_sizes_that_data_decides(tmp_path, function, dynamic):
    module, path = Calls(function), tmp_path / "program"
    shapes = ({0: Dim("rows", min=6, max=40)},)
    bascule.aot_compile(export(module, (inputs(6)[1],), dynamic_shapes=(shapes,) if dynamic else None), path)
    program = bascule.aot_load(path)
    for rows in (6, 7, 40) if dynamic else (6,):
        for x in inputs(rows):
            compare(program, module, x)


RUN = (
    BLOCKED
    + """
import torch, bascule
inputs, want = torch.load(sys.argv[2])
for name in want:
    program = bascule.aot_load(f"{sys.argv[1]}/{name}")
    for x, y in zip(inputs, want[name]):
        leaves = lambda given: torch.utils._pytree.tree_leaves(given)
        for a, b in zip(leaves(program(x)), leaves(y), strict=True):
            assert torch.allclose(torch.as_tensor(a), torch.as_tensor(b), atol=1e-5) and a.shape == b.shape, name
"""
)


def test_a_process_that_loads_them_imports_no_compiler(tmp_path):
    want = {}
    for function in (branches, loop, steps, mapped, masked):
        module = Calls(function)
        bascule.aot_compile(export(module, (inputs(6)[0],)), tmp_path / function.__name__)
        with torch.no_grad():
            want[function.__name__] = [module(x) for x in inputs(6)]
    torch.save((inputs(6), want), tmp_path / "want")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path), str(tmp_path / "want")], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("function", [branches, masked])
def test_frozen_weights(tmp_path, function):
    module, path = Calls(function), tmp_path / "program"
    bascule.aot_compile(export(module, (inputs(6)[0],)), path, options={"freezing": True})
    for x in inputs(6):
        compare(bascule.aot_load(path), module, x)


def test_weights_and_buffers_of_a_program_in_parts(tmp_path):
    class Counts(Calls):
        def __init__(self):
            super().__init__(branches)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return super().forward(x)[0] + self.calls

    module, path, x = Counts(), tmp_path / "program", inputs(6)[2]
    bascule.aot_compile(export(module, (x,)), path, weights="reference")
    other = Counts()
    program = bascule.aot_load(path, weights=other.state_dict())
    want = [other(x), other(x)]
    other.calls.zero_()
    torch.testing.assert_close([program(x), program(x)], want)
    assert other.calls.item() == 2


def test_it_is_refused_by_name_where_a_fallback_is_an_error(tmp_path):
    with pytest.raises(bascule.UnsupportedError, match="cond"):
        bascule.aot_compile(
            export(Calls(branches), (inputs(6)[0],)), tmp_path / "program", options={"fallback": "error"}
        )


@pytest.fixture
def doubled():
    """A custom operator that a program calls, and where it is defined."""
    library = torch.library.Library("bascule_tests", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    library.impl("doubled", lambda x: x * 2, "CompositeExplicitAutograd")
    library.impl("doubled", torch.empty_like, "Meta")
    yield torch.ops.bascule_tests.doubled
    library._destroy()


def test_a_custom_operator(tmp_path, doubled):
    module, path, x = Calls(lambda m, x: doubled(m.linear(x)).sin()), tmp_path / "program", inputs(6)[0]
    bascule.aot_compile(export(module, (x,)), path)
    compare(bascule.aot_load(path), module, x)
    assert unpack(path.read_bytes())[0]["operators"] == ["bascule_tests::doubled.default"]


def test_a_custom_operator_that_is_not_there(tmp_path, doubled):
    path, library = tmp_path / "program", torch.library.Library("bascule_tests", "FRAGMENT")
    library.define("other(Tensor x) -> Tensor")
    library.impl("other", lambda x: x * 2, "CompositeExplicitAutograd")
    library.impl("other", torch.empty_like, "Meta")
    module = Calls(lambda m, x: torch.ops.bascule_tests.other(x))
    bascule.aot_compile(export(module, (inputs(6)[0],)), path)
    library._destroy()
    torch.ops.bascule_tests.__dict__.pop("other", None)
    with pytest.raises(PackageError, match=r"program: calls bascule_tests::other\.default, which is not registered"):
        bascule.aot_load(path)
