"""`aot_compile` and `aot_load`: programs as files, run by a process without a compiler."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from bascule.runtime.kernels.elf_loader import ObjectCodeError
from bascule.runtime.packages.container import PackageError, pack, unpack
from torch.export import Dim, export

import bascule
from tests.blocked_imports import BLOCKED


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
    with pytest.raises(ValueError, match="size of input 0 in dimension 0 is 51, the program takes 2 to 50"):
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
        (
            (torch.randn(5, 8), {"other": torch.randn(6)}),
            r"the structure \(_, {'other': _}\), .* takes \(_, {'by': _}\)",
        ),
        ((torch.randn(5, 8),), r"the structure \(_\), the program takes"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, args, says):
    program = bascule.aot_load(saved(tmp_path, Model(), example()))
    with pytest.raises(ValueError, match=says):
        program(*args)


def test_a_spoiled_package_is_refused(tmp_path):
    path = saved(tmp_path, Model(), example())
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(PackageError, match=f"{path.name}: cut short or changed"):
        bascule.aot_load(path)


def test_another_processors_package_is_refused(tmp_path):
    path = saved(tmp_path, Model(), example())
    description, blobs = unpack(path.read_bytes())
    path.write_bytes(pack({**description, "processor": [*description["processor"], "avx9"]}, blobs))
    with pytest.raises(ObjectCodeError, match="avx9"):
        bascule.aot_load(path)


def test_weights_by_reference(tmp_path):
    """The file holds names; the tensors that it is loaded with are the program's, buffers that it writes among them."""
    module, args = Model(), example()
    path, inside = tmp_path / "reference.bascule", saved(tmp_path, module, args)
    bascule.aot_compile(export(module, args), path, weights="reference")
    assert not [name for name in unpack(path.read_bytes())[1] if name.startswith("weights/")]
    assert path.stat().st_size < inside.stat().st_size
    other = Model()
    program = bascule.aot_load(path, weights=other.state_dict())
    want = other(*args)
    torch.testing.assert_close(program(*args), want)
    assert other.calls.item() == 2, "the module and the program have each counted in one buffer"
    with torch.no_grad():
        other.linear.weight.mul_(2)
    torch.testing.assert_close(program(*args), other(*args))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda w: w.pop("norm.bias"), KeyError, "no values of norm.bias"),
        (lambda w: w.clear(), KeyError, "calls, linear.bias|linear.weight, linear.bias"),
        (lambda w: w.update(other=torch.zeros(1)), KeyError, "no weight 'other'"),
        (lambda w: w.update({"norm.bias": torch.zeros(7)}), ValueError, r"'norm.bias' is .*\[7\], .*\[6\]"),
        (lambda w: w.update({"norm.bias": torch.zeros(6).half()}), ValueError, "'norm.bias' is torch.float16"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, change, error, says):
    path = tmp_path / "program.bascule"
    bascule.aot_compile(export(Model(), example()), path, weights="reference")
    weights = Model().state_dict()
    change(weights)
    with pytest.raises(error, match=says):
        bascule.aot_load(path, weights=weights)


def test_other_places_for_weights_are_refused(tmp_path):
    with pytest.raises(bascule.UserError, match="parameter 'weights'"):
        bascule.aot_compile(export(Model(), example()), tmp_path / "program", weights="elsewhere")


@dataclass
class Both:
    first: torch.Tensor
    second: torch.Tensor


class Twice(torch.nn.Module):
    def forward(self, x):
        return Both(x + 1, x * 2)


def test_results_of_a_class(tmp_path):
    torch.export.register_dataclass(Both, serialized_type_name="bascule_tests.Both")
    program, x = bascule.aot_load(saved(tmp_path, Twice(), (torch.randn(3),))), torch.randn(3)
    assert isinstance(program(x), Both) and torch.equal(program(x).second, x * 2)


def test_a_class_without_a_name_is_refused(tmp_path):
    @dataclass
    class Nameless(Both):
        pass

    class Gives(torch.nn.Module):
        def forward(self, x):
            return Nameless(x + 1, x * 2)

    torch.export.register_dataclass(Nameless)
    with pytest.raises(
        bascule.UserError, match=r"No registered serialization name for .*Nameless(.|\n)*serialized_type"
    ):
        saved(tmp_path, Gives(), (torch.randn(3),))


def test_what_is_no_exported_program_is_refused(tmp_path):
    with pytest.raises(bascule.UserError, match=r"'program': is a Model\n.*torch\.export\.export"):
        bascule.aot_compile(Model(), tmp_path / "program")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cudagraphs": True}, "option 'cudagraphs': is not followed by packages"),
        ({"post_grad_custom_pre_pass": print}, "option 'post_grad_custom_pre_pass': is not followed"),
        ({"numeric": "f32"}, "did you mean 'numerics'"),
    ],
)
def test_options_of_no_package_are_refused(tmp_path, options, says):
    with pytest.raises(bascule.UserError, match=says):
        bascule.aot_compile(export(Model(), example()), tmp_path / "program", options=options)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("place", "says"), [(".", "is a directory"), ("no/such", "there is no directory")])
def test_a_place_that_is_none_is_refused(tmp_path, place, says):
    with pytest.raises(bascule.UserError, match=f"parameter 'path': .*{says}"):
        bascule.aot_compile(export(Model(), example()), tmp_path / place)


def test_a_link_is_followed(tmp_path):
    """As by whoever opens it to write: what it leads to is written, and the link stays."""
    (tmp_path / "there").mkdir()
    link, there = tmp_path / "program", tmp_path / "there" / "program"
    for content in (None, b"before"):
        if content is not None:
            there.write_bytes(content)
        link.unlink(missing_ok=True)
        link.symlink_to("there/program")
        model, args = Model(), example()
        bascule.aot_compile(export(model, args), link)
        assert link.is_symlink() and there.is_file() and not there.is_symlink()
        torch.testing.assert_close(bascule.aot_load(link)(*args), model(*args))
    assert [*there.parent.iterdir()] == [there], "nothing unfinished"


@pytest.mark.parametrize(
    ("target", "says"), [("program", "leads nowhere"), ("no/such", "no directory"), (".", "is a directory")]
)
def test_a_link_that_leads_to_no_file_is_refused(tmp_path, target, says):
    link = tmp_path / "program"
    link.symlink_to(target)
    with pytest.raises(bascule.UserError, match=f"parameter 'path': .*{says}"):
        bascule.aot_compile(export(Model(), example()), link)
    assert link.is_symlink()


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(bascule.UserError, match="is no file"):
        bascule.aot_compile(export(Model(), example()), tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_conditions_of_a_package_are_arithmetic(tmp_path):
    """A package's conditions on sizes are parsed, never run."""
    path = saved(tmp_path, Model(), example())
    description, blobs = unpack(path.read_bytes())
    ran = tmp_path / "ran"
    path.write_bytes(pack({**description, "guards": [f"__import__('os').mkdir({str(ran)!r}) is None"]}, blobs))
    with pytest.raises(PackageError, match="no arithmetic of sizes"):
        bascule.aot_load(path)
    assert not ran.exists()


def test_a_failure_leaves_the_package_that_was_there(tmp_path, monkeypatch):
    path = saved(tmp_path, Model(), example())
    content = path.read_bytes()

    def half(self, data):
        with open(self, "wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError("no space left")

    monkeypatch.setattr(type(path), "write_bytes", half)
    with pytest.raises(OSError, match="no space"):
        saved(tmp_path, Model(), example())
    assert [*tmp_path.iterdir()] == [path] and path.read_bytes() == content


@pytest.mark.parametrize("weights", [[torch.ones(6)], {"linear.bias": 3}])
def test_weights_that_are_no_tensors_by_name_are_refused(tmp_path, weights):
    path = saved(tmp_path, Model(), example())
    with pytest.raises(TypeError, match="a dictionary of tensors by name"):
        bascule.aot_load(path, weights=weights)


def test_weights_are_bound_without_a_copy(tmp_path):
    module, args = Model(), example()
    program = bascule.aot_load(saved(tmp_path, module, args))
    other = Model()
    program.bind_weights(dict(other.named_parameters()))
    torch.testing.assert_close(program(*args), other(*args))
    with torch.no_grad():
        other.norm.bias.add_(1)
        other.linear.weight.data = other.linear.weight.t().contiguous().t()
    torch.testing.assert_close(program(*args), other(*args))
    program.bind_weights({"linear.weight": other.linear.weight})  # of other strides: copied
    torch.testing.assert_close(program(*args), other(*args))


class Strided(torch.nn.Module):
    """Weights of which the elements are not all of their memory, or that share it; a constant; a buffer in no state dict."""

    def __init__(self):
        super().__init__()
        self.part = torch.nn.Parameter(torch.randn(6, 8)[:, ::2])
        self.one = torch.nn.Parameter(torch.randn(6, 1).expand(6, 4))
        self.turned = torch.nn.Parameter(torch.randn(4, 6).t())
        self.register_buffer("table", torch.randn(6, 4), persistent=False)
        self.constant = torch.randn(4)
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, x):
        return (x * self.part + self.one) * self.turned + self.table * self.constant


@pytest.mark.parametrize("weights", ["inside", "reference"])
def test_weights_of_any_strides(tmp_path, weights):
    module, x, path = Strided(), torch.randn(6, 4), tmp_path / "program"
    bascule.aot_compile(export(module, (x,)), path, weights=weights)
    program = bascule.aot_load(path, weights=module.state_dict() if weights == "reference" else None)
    torch.testing.assert_close(program(x), module(x))


def test_a_written_input_of_other_strides(tmp_path):
    class Add(torch.nn.Module):
        def forward(self, x, y):
            x.add_(y)
            return x * 2

    program = bascule.aot_load(saved(tmp_path, Add(), (torch.zeros(3, 4), torch.ones(4))))
    x, y = torch.randn(4, 3).t(), torch.randn(4)
    want = x + y
    torch.testing.assert_close(program(x, y), want * 2)
    torch.testing.assert_close(x, want)


def test_frozen_weights_are_constants(tmp_path):
    module, args, path = Model(), example(), tmp_path / "program"
    bascule.aot_compile(export(module, args), path, options={"freezing": True})
    want = module(*args)
    program = bascule.aot_load(path)
    torch.testing.assert_close(program(*args), want)
    assert list(program.weights) == ["calls"] and program.weights["calls"].item() == 1
    with pytest.raises(KeyError, match=r"'norm\.bias' was made a constant"):
        program.load_weights({"norm.bias": torch.zeros(6)})
    with pytest.raises(bascule.UserError, match="by reference"):
        bascule.aot_compile(export(module, args), path, weights="reference", options={"freezing": True})


RUN = (
    BLOCKED
    + """
import json
import torch, bascule
program = bascule.aot_load(sys.argv[1])
out = program(torch.ones(5, 8), {"by": torch.ones(6)})
json.dump(out["sum"].tolist(), sys.stdout)
"""
)


def test_a_process_that_loads_it_imports_no_compiler(tmp_path):
    module = Model()
    path = saved(tmp_path, module, example())
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(
        torch.tensor(json.loads(done.stdout)), module(torch.ones(5, 8), {"by": torch.ones(6)})["sum"].detach()
    )
