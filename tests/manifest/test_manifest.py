"""The manifest that a dump has of each graph: bytes and operations of kernels, steps and buffers of the program, what cubins tell."""

import json
from itertools import combinations
from pathlib import Path

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline

from bascule.manifest.cubins import takes
from bascule.manifest.manifest import SCHEMA, VERSION

ROWS, LONG = 32, 48


def manifests(folder: Path, function, *inputs, dynamic=False) -> dict[str, dict]:
    """By graph, of a run, and of its backward if the result has one."""
    torch.compiler.reset()
    options = {"dump": str(folder), "cache": False, "on_error": "raise"}
    result = torch.compile(function, backend="bascule", options=options, dynamic=dynamic)(*inputs)
    if result.requires_grad:
        result.backward()
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/manifest.json"))}


@pytest.fixture(scope="module")
def step(tmp_path_factory) -> dict[str, dict]:
    """A training step of a small network: its graphs by direction, for the number before depends on what was compiled before."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(LONG, 64),
        torch.nn.GELU(),
        torch.nn.LayerNorm(64),
        torch.nn.Linear(64, 16),
        torch.nn.Softmax(-1),
    )
    found = manifests(tmp_path_factory.mktemp("dump"), lambda x: model(x).square().sum(), torch.randn(ROWS, LONG))
    return {name.partition("_")[2]: told for name, told in found.items()}


def test_each_graph_has_one(step):
    assert set(step) == {"forward", "backward"}
    for direction, told in step.items():
        assert (told["schema"], told["version"], told["target"]) == (SCHEMA, VERSION, "cpu")
        assert told["graph"].endswith(f"_{direction}")
        assert told["seconds"]["form-kernels"] > 0 and told["nodes"] > 5


def test_the_documents_have_every_field(step):
    text = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()
    told = step["backward"]
    records = [told, told["program"], told["kernels"][0], told["kernels"][0]["parameters"][0], told["remarks"][0]]
    records += [told["program"]["buffers"][0], *told["program"]["steps"], *told["program"]["aten"]]
    assert not {field for record in records for field in record if f"`{field}`" not in text}
    assert f"version {VERSION}" in text


def test_bytes_and_operations_of_a_kernel(tmp_path):
    (told,) = manifests(tmp_path, lambda x: x.exp() * 2 + 1, torch.randn(ROWS, LONG)).values()
    (kernel,) = told["kernels"]
    assert (kernel["bytes_read"], kernel["bytes_written"]) == (4 * ROWS * LONG, 4 * ROWS * LONG)
    assert kernel["flops"] == 3 * ROWS * LONG
    read, written = kernel["parameters"]
    assert (read["shape"], read["strides"], read["dtype"], read["read"], read["written"]) == (
        [ROWS, LONG],
        [LONG, 1],
        "f32",
        True,
        False,
    )
    assert written["written"] and not written["read"]
    assert all(Path(__file__).name in source for source in kernel["sources"]) and kernel["sources"]
    assert kernel["schedule"]["target"] == "cpu" and "aten.exp.default" in kernel["operators"]


def test_a_reduction_counts_an_addition_an_element(tmp_path):
    (told,) = manifests(tmp_path, lambda x: x.square().sum(-1), torch.randn(ROWS, LONG)).values()
    (kernel,) = told["kernels"]
    assert (kernel["flops"], kernel["bytes_written"]) == (2 * ROWS * LONG, 4 * ROWS)


def test_steps_read_what_was_written(step):
    for told in step.values():
        program, written = told["program"], set()
        places = {buffer["buffer"]: buffer["place"] for buffer in program["buffers"]}
        for place in program["steps"]:
            unwritten = [b for b in place["reads"] if places[b] != "argument" and b not in written]
            assert not unwritten, f"step {place['step']} of {told['graph']}"
            written.update(place["writes"])
        assert {b["buffer"] for b in program["buffers"] if b["returned"]} <= {
            *written,
            *(b for b in places if places[b] == "argument"),
        }
        assert sum(kernel["calls"] for kernel in told["kernels"]) == sum(
            s["kind"] == "launch" for s in program["steps"]
        )
        products = [place for place in program["steps"] if place["kind"] == "aten"]
        assert sum(call["calls"] for call in program["aten"]) == len(products)
        assert all(place["reason"] == "a matrix product, which the BLAS library does" for place in products)


def test_buffers_that_are_needed_together_lie_apart(step):
    seen = 0
    for told in step.values():
        arena = [b for b in told["program"]["buffers"] if b["place"] == "arena"]
        assert all(b["offset"] + b["bytes"] <= int(told["program"]["arena"]["arena"]) for b in arena)
        for a, b in combinations(arena, 2):
            if a["first"] < b["last"] and b["first"] < a["last"]:
                assert a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
                seen += 1
    assert seen


def test_remarks_are_those_of_the_program(step):
    told = step["backward"]
    missed = [remark for remark in told["remarks"] if remark["pass"] == "form-kernels"]
    names = {kernel["name"] for kernel in told["kernels"]}
    assert missed and all(remark["kernel"] in names and remark["partner"]["operator"] for remark in missed)


def test_dynamic_sizes_are_question_marks(tmp_path):
    (told,) = manifests(tmp_path, lambda x: x.exp().sum(-1), torch.randn(ROWS, LONG), dynamic=True).values()
    (kernel,) = told["kernels"]
    assert kernel["parameters"][0]["shape"] == ["?", "?"] and kernel["bytes_read"] is None


TRITON = """
func.func private @scale(%x: memref<4096xf32>, %y: memref<4096xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %x[%i] : memref<4096xf32>
    %v = math.exp %e : f32
    "bascule.store"(%v, %y, %i) : (f32, memref<4096xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4096)>} : () -> ()
  return
}
"""


def test_cubins_tell_their_registers():
    pytest.importorskip("triton")
    from bascule.lowering.triton.compile.compilation import compile_kernel
    from bascule.lowering.triton.compile.emitters import REGISTERS, ptxas
    from bascule.lowering.triton.compile.parallel import compile_kernels
    from bascule.lowering.triton.kernels.triton_kernel import triton_kernels

    from bascule.targets.kernel_images import image_of

    with context():
        module = ir.Module.parse(TRITON)
        Pipeline.parse("schedule-kernels{target=cuda},to-triton").run(module)
        kernels = triton_kernels(module)
    (code,) = compile_kernels(kernels, 90).values()
    log = ptxas.log(compile_kernel(kernels[0], 90).asm["ptx"], 90)
    assert takes(image_of(code)) == {"registers": int(REGISTERS.search(log)[1]), "shared_bytes": code.shared}


def test_what_is_no_cubin_tells_nothing():
    from bascule.runtime.kernels.cuda_driver import CubinImage

    assert takes(CubinImage(b"text", "f", 1, 64, "")) == {"registers": None, "shared_bytes": 64}
