"""`aot_compile` and `aot_load`: programs as files, run by a process without a compiler."""

import json
import subprocess
import sys

import pytest
import torch
from bascule.runtime.object_code import ObjectCodeError
from bascule.runtime.packages import PackageError, pack, unpack
from torch.export import Dim, export

import bascule


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(8, 6), torch.nn.LayerNorm(6)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, scale):
        self.calls += 1
        y = torch.nn.functional.gelu(self.norm(self.linear(x))) * scale["by"]
        return {"out": torch.softmax(y, -1), "sum": y.sum(0)}


def saved(tmp_path, module, args, **kwargs):
    path = tmp_path / "program.bascule"
    bascule.aot_compile(export(module, args, **kwargs), path)
    return path


def example(rows=5):
    return torch.randn(rows, 8), {"by": torch.randn(6)}


def test_it_computes_what_the_module_does(tmp_path):
    module, args = Model(), example()
    program = bascule.aot_load(saved(tmp_path, module, args))
    for _ in range(2):
        args = example()
        torch.testing.assert_close(program(*args), module(*args))
    assert program.weights["calls"].item() == 2, "buffers are kept from call to call"


def test_dynamic_sizes(tmp_path):
    module = Model()
    shapes = {"x": {0: Dim("rows", min=2, max=50)}, "scale": {"by": {}}}
    program = bascule.aot_load(saved(tmp_path, module, example(), dynamic_shapes=shapes))
    for rows in (2, 7, 50):
        args = example(rows)
        torch.testing.assert_close(program(*args), module(*args))
    with pytest.raises(ValueError, match="is 51, the program takes 2 to 50"):
        program(*example(51))


def test_weights_are_updated(tmp_path):
    module, args = Model(), example()
    program = bascule.aot_load(saved(tmp_path, module, args))
    other = Model()
    program.load_weights(dict(other.named_parameters()))
    torch.testing.assert_close(program(*args), other(*args))


def test_other_strides_are_copied(tmp_path):
    module, (x, scale) = Model(), example()
    program = bascule.aot_load(saved(tmp_path, module, (x, scale)))
    strided = torch.randn(8, 5).t()
    torch.testing.assert_close(program(strided, scale), module(strided, scale))


def test_inputs_are_written(tmp_path):
    class Add(torch.nn.Module):
        def forward(self, x, y):
            x.add_(y)
            return x * 2

    program = bascule.aot_load(saved(tmp_path, Add(), (torch.zeros(3), torch.ones(3))))
    x, y = torch.randn(3), torch.randn(3)
    mine = x.clone()
    torch.testing.assert_close(program(mine, y), (x + y) * 2)
    torch.testing.assert_close(mine, x + y)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((torch.randn(4, 8), {"by": torch.randn(6)}), "has sizes"),
        ((torch.randn(5, 8).double(), {"by": torch.randn(6)}), "is torch.float64 on cpu"),
        ((torch.randn(8), {"by": torch.randn(6)}), "has 1 dimensions"),
        ((3, {"by": torch.randn(6)}), "is int"),
        ((torch.randn(5, 8), {"other": torch.randn(6)}), "structure"),
        ((torch.randn(5, 8),), "structure"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, args, says):
    program = bascule.aot_load(saved(tmp_path, Model(), example()))
    with pytest.raises(ValueError, match=says):
        program(*args)


def test_a_spoiled_package_is_refused(tmp_path):
    path = saved(tmp_path, Model(), example())
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(PackageError):
        bascule.aot_load(path)


def test_another_processors_package_is_refused(tmp_path):
    path = saved(tmp_path, Model(), example())
    description, blobs = unpack(path.read_bytes())
    path.write_bytes(pack({**description, "processor": [*description["processor"], "avx9"]}, blobs))
    with pytest.raises(ObjectCodeError, match="avx9"):
        bascule.aot_load(path)


RUN = """
import json, sys
import torch, bascule
program = bascule.aot_load(sys.argv[1])
out = program(torch.ones(5, 8), {"by": torch.ones(6)})
heavy = [m for m in ("torch._dynamo", "torch_mlir", "triton", "sympy.core") if m in sys.modules]
json.dump([out["sum"].tolist(), heavy], sys.stdout)
"""


def test_a_process_that_loads_it_imports_no_compiler(tmp_path):
    module = Model()
    path = saved(tmp_path, module, example())
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    total, heavy = json.loads(done.stdout)
    assert heavy == []
    torch.testing.assert_close(torch.tensor(total), module(torch.ones(5, 8), {"by": torch.ones(6)})["sum"].detach())
