"""Packages of programs with ordered effects: each call is made once, in the program's order, whether or not anything uses its result."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._higher_order_ops.map import map as map_over
from torch.export import Dim, export

import bascule
from tests.export.effects_process import hear, heard

PROCESS = Path(__file__).with_name("effects_process.py")


def unused(m, x):
    hear(x, "unused")
    return x * m.w


def ordered(m, x):
    """Neither what is computed late nor what is used first goes first; equal calls are two."""
    late = hear((x * m.w).exp().cumsum(0), "late")
    hear(x, "unused")
    early = hear(x * 2, "early") + hear(x * 2, "early")
    return early.sum() + late


def counted(m, x):
    m.calls.add_(1)
    hear(m.calls, "calls")
    return x * m.calls


def prints(m, x):
    torch._higher_order_ops.print("before {}", x.shape[1])
    y = hear(x * m.w, "between")
    torch._higher_order_ops.print("after")
    return y.sin()


def in_parts(m, x):
    hear(x, "before")
    y = x[x > 0]
    hear(y + 3, "after")
    return y * 2


def writes(m, x):
    x.mul_(2)
    return hear(x, "written") * m.w


def branches(m, x):
    def branch(x):
        hear(x, "unused")
        return hear(x * 2, "branch")

    return torch.cond(x.sum() > 0, branch, lambda x: x.cos(), (x * m.w,))


def mapped(m, x):
    return map_over(lambda row: hear(row, "row") * 2, x) * m.w


FUNCTIONS = (unused, ordered, counted, prints, in_parts, writes)
BODIES = (branches, mapped)  # which PyTorch itself exports without tokens only


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.w = function, torch.nn.Parameter(torch.tensor([0.5, 2.0, -1.5]))
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        return self.function(self, x)


def test_in_a_process_that_only_loads_them(tmp_path, capfd):
    """Called twice, with other sizes the second time; programs that have tokens before they are compiled are taken as well."""
    inputs = [torch.randn(rows, 3).abs() + 0.1 for rows in (4, 5)]
    torch.save(inputs, tmp_path / "inputs")
    want = {}
    for function in FUNCTIONS + BODIES:
        module = Calls(function)
        program = export(module, (inputs[0].clone(),), dynamic_shapes=({0: Dim("rows", min=2, max=40)},))
        for exported in (program,) if function in BODIES else (program, program.run_decompositions()):
            name = f"{function.__name__}{len(want)}"
            bascule.aot_compile(exported, tmp_path / name)
            heard.clear()
            capfd.readouterr()
            with torch.no_grad():
                results = [module(x.clone()) for x in inputs]
            want[name] = results, heard[:], capfd.readouterr().out
            module.calls.zero_()
    torch.save([*want], tmp_path / "names")
    subprocess.run([sys.executable, str(PROCESS), str(tmp_path)], check=True, timeout=100)
    printed = capfd.readouterr().out
    for name, (results, calls) in torch.load(tmp_path / "results").items():
        torch.testing.assert_close(results, want[name][0], msg=name)
        assert [told for told, _ in calls] == [told for told, _ in want[name][1]], name
        assert [number for _, number in calls] == pytest.approx([number for _, number in want[name][1]], rel=1e-5)
    assert printed == "".join(out for _, _, out in want.values()) != ""


def test_frozen_weights_and_weights_by_reference(tmp_path):
    """Tokens are no inputs that anything is counted by."""
    module, path, x = Calls(ordered), tmp_path / "program", torch.randn(4, 3)
    program = export(module, (x,))
    for settings in ({"options": {"freezing": True}}, {"weights": "reference"}):
        bascule.aot_compile(program, path, **settings)
        loaded = bascule.aot_load(path, weights=module.state_dict() if "weights" in settings else None)
        torch.testing.assert_close(loaded(x), module(x).detach())
