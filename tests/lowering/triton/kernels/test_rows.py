"""Rows that registers hold: as several tiles where one would be half empty, what all rows share read once, one meeting of the threads."""

import re

import pytest
import torch
import torch.nn.functional as F
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.scheduling.gpu.machine import SHARED
from bascule.dialect.scheduling.tuning.neighbours import neighbours
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.importer.graph import import_graph
from bascule.lowering.triton import TritonKernel, compile_kernel, compile_kernels
from bascule.lowering.triton.compile.kernel_cache import KernelCache
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import bascule
from bascule.options import Options
from bascule.pipelines import pipeline_for
from tests.lowering.triton.check import check, cubins, edit, lowered, program

WIDTHS = [384, 640, 768, 760, 1000, 3000, 5120]  # three or five tiles, three of which the last is short, one


def schedules(function, *inputs) -> str:
    module = program(function, *inputs)
    with module.context:
        return " ".join(
            str(kernel.attributes["schedule"]) for kernel in filter(None, map(kernel_op, functions(module)))
        )


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def layer_norm_alone(x):
    return F.layer_norm(x, x.shape[-1:])


def train(function, *inputs: torch.Tensor, **options) -> list[torch.Tensor]:
    """Result and gradients."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = function(*leaves)
    ramp = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).sin().view(out.shape)
    return [out.detach(), *torch.autograd.grad(out, leaves, ramp)]


@pytest.mark.parametrize("width", WIDTHS)
def test_rows(width):
    check(layer_norm, torch.randn(9, width) + 2, torch.randn(width), torch.randn(width))
    check(lambda x: F.softmax(x, -1), torch.randn(9, width) * 3)
    check(lambda x: x.amax(-1) + x.argmin(-1) * x.prod(-1), torch.rand(5, width) + 0.5)


@pytest.mark.parametrize("width", [768, 5000, 5120])
def test_rows_beside_sums_of_columns(width):
    """The gradients of a layer norm; of the long ones the sums are carried as the tiles of a row."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    inputs = torch.randn(300, width) + 1, torch.randn(width), torch.randn(width)
    options = {"target": "interpret", "on_error": "raise", "cache": False}
    got = train(torch.compile(layer_norm, backend="bascule", dynamic=False, options=options), *inputs)
    want = train(layer_norm, *(x.double() for x in inputs))
    for g, w in zip(got, want, strict=True):
        assert (g - w).abs().max() <= 1e-5 * w.abs().max()


def layer_norm_of_images(x, w, b):
    return F.layer_norm(x.permute(0, 2, 3, 1), w.shape, w, b)


def activation(x, w, b):
    return F.gelu(x.permute(0, 2, 3, 1) * w + b)


@pytest.mark.parametrize("function", [layer_norm_of_images, activation])
def test_sums_of_columns_of_images(function):
    """By chunks of one row of an image; statistics of rows have three dims."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    x = torch.randn(16, 72, 14, 14).to(memory_format=torch.channels_last)
    inputs = x + 1, torch.randn(72), torch.randn(72)
    options = {"target": "interpret", "on_error": "raise", "cache": False}
    got = train(torch.compile(function, backend="bascule", dynamic=False, options=options), *inputs)
    want = train(function, *(x.double() for x in inputs))
    for g, w in zip(got, want, strict=True):
        # Sums of 3136 numbers that cancel: eager's in f32 are 1e-3 off.
        assert (g - w).abs().max() <= 1e-5 * w.abs().max().clamp(min=10)


@pytest.mark.parametrize(("width", "tiles"), [(768, 3), (5120, 5), (1024, 1), (1000, 1), (96, 1)])
def test_tiles(width, tiles):
    text = schedules(lambda x: F.softmax(x, -1), torch.randn(999, width))
    steps = {int(step) for step in re.findall(r"step = (\d+)", text)}
    assert {-(-width // step) for step in steps} == {tiles}
    assert ("held = true" in text) == (tiles > 1)


def test_a_scan_is_one_tile():
    assert "held" not in schedules(lambda x: x.cumsum(-1), torch.randn(9, 768))
    check(lambda x: x.cumsum(-1), torch.randn(9, 768))


def held_in_tiles(function, step):
    """The program of `function` over rows of 1024, whose loops are held in tiles of `step`."""
    module = program(function, torch.randn(9, 1024))
    with module.context:
        (kernel,) = filter(None, map(kernel_op, functions(module)))
        text = str(kernel.attributes["schedule"]).replace("step = 1024", f"held = true, step = {step}")
        kernel.attributes["schedule"] = type(kernel.attributes["schedule"]).parse(text)
    return module


def test_a_scan_of_several_tiles_is_refused():
    module = held_in_tiles(lambda x: x.cumsum(-1), 256)
    with pytest.raises(bascule.UnsupportedError, match="several tiles"):
        lowered(module)


def test_more_tiles_than_are_worth_their_code_are_refused():
    module = held_in_tiles(lambda x: x.sum(-1), 32)
    with pytest.raises(bascule.UserError, match="holds 1024 points in tiles of 32"):
        lowered(module)


EDITED = {
    "one walk": ("walk = 1", "walk = 0", "what needs a loop's result has to be in a later walk"),
    "no stages": ("stages = ", "stages = -", "the schedule has -[0-9]+ stages"),
    "no such step": ("step = 128", "step = 96", "step 96 is not a power of two"),
    "many warps": ("warps = ", "warps = 6", "the schedule has 6[0-9]* warps"),
}


@pytest.mark.parametrize("edit", EDITED)
def test_edited_schedules_that_do_not_fit_are_refused(edit):
    """At the place in the user's program, and not by what happens to go wrong in the lowering."""
    before, after, message = EDITED[edit]
    module = program(lambda x: x - x.amax(-1, keepdim=True), torch.randn(9, 100))
    with module.context:
        (kernel,) = filter(None, map(kernel_op, functions(module)))
        text = str(kernel.attributes["schedule"])
        assert before in text
        kernel.attributes["schedule"] = type(kernel.attributes["schedule"]).parse(text.replace(before, after))
    with pytest.raises(bascule.UserError, match=message):
        lowered(module)


def gradients(x, g, w):
    """The rows of a gradient: two sums of each row."""
    weighted = g * w
    return weighted - weighted.sum(-1, keepdim=True) * 1e-3 - x * (weighted * x).sum(-1, keepdim=True) * 1e-3


def test_threads_meet_once_for_reductions_that_do_not_wait_for_each_other():
    inputs = torch.randn(40, 1024), torch.randn(40, 1024), torch.randn(1024)
    (kernel,) = lowered(program(gradients, *inputs)).values()
    assert kernel.ttir.count('"tt.reduce"(') == 1
    check(gradients, *inputs, tolerance={"rtol": 1e-4, "atol": 1e-4})


def test_reductions_of_several_kinds_meet():
    rows = torch.rand(7, 1024) * torch.linspace(0.5, 1.5, 7)[:, None]  # no sum cancels; some have nothing above 1
    check(lambda x: (x.sum(-1) * x.amax(-1), x.argmax(-1), (x > 1).any(-1)), rows)


def test_weights_of_rows_beside_columns_are_read_before_the_loop():
    """The weights of a layer norm: Triton would read them again for each row."""

    def backward(g, x, mean, rstd, w):
        return torch.ops.aten.native_layer_norm_backward(g, x, [1024], mean, rstd, w, w, [True, True, True])

    with FakeTensorMode():
        rows, row, columns = torch.empty(8192, 1024), torch.empty(8192, 1), torch.empty(1024)
        gm = make_fx(backward, tracing_mode="fake", decomposition_table=decomposition_table())(
            rows, rows.clone(), row, row.clone(), columns
        )
    fake = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    module = import_graph(gm, fake, context=context()).module
    pipeline_for(Options(), {"target": "cuda"}).run(module)
    (kernel,) = [k for k in lowered(module).values() if "scf.for" in k.ttir and "tensor<1024xf32>" in k.ttir][:1]
    before, inside = kernel.ttir.split("scf.for", 1)
    read = re.compile(r'"tt.load".*-> tensor<1024xf32>')
    assert len(read.findall(before)) == 1  # the weights
    assert len(read.findall(inside)) == 2


def test_a_mask_has_the_arrangement_of_what_it_masks():
    """Or everything that meets it would be computed once for each."""
    function = lambda x, m: F.softmax(x.float() * m, -1).to(x.dtype)  # noqa: E731
    inputs = torch.randn(64, 4096, dtype=torch.bfloat16), torch.rand(64, 4096) > 0.3
    check(function, *inputs)
    (kernel,) = lowered(program(function, *inputs)).values()
    text = compile_kernel(kernel, 90).asm["ttgir"]
    assert len({layout for layout in re.findall(r"tensor<4096xf32, (#\w+)>", text)}) == 1


def test_rows_of_several_tiles_compile():
    x, w = torch.empty(999, 768, device="meta", dtype=torch.bfloat16), torch.empty(768, device="meta")
    assert cubins(layer_norm, x, w, w)


@pytest.mark.parametrize(
    ("function", "warps"),
    [(lambda x: x / x.abs().amax(-1, keepdim=True), 8), (layer_norm_alone, 8), (lambda x: F.softmax(x, -1), 16)],
    ids=["quotients", "layer norm", "softmax"],
)
def test_rows_whose_threads_meet_once_have_fewer(function, warps):
    assert f"warps = {warps} : i64" in schedules(function, torch.empty(4096, 8192, device="meta", dtype=torch.bfloat16))


def rows_beside_columns(width: int, dtype: torch.dtype, **machine: int) -> list[TritonKernel]:
    """Kernels of the backward of a layer norm."""

    def backward(g, x, mean, rstd, w):
        return torch.ops.aten.native_layer_norm_backward(g, x, [width], mean, rstd, w, None, [True, True, False])[:2]

    g, x = (torch.empty(16384, width, device="meta", dtype=dtype) for _ in range(2))
    row, w = torch.empty(16384, 1, device="meta"), torch.empty(width, device="meta", dtype=dtype)
    gm = make_fx(backward, tracing_mode="fake", decomposition_table=decomposition_table())(g, x, row, row, w)
    module = import_graph(
        gm, [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"], context=context()
    ).module
    pipeline_for(Options(), {"target": "cuda", **machine}).run(module)
    return list(lowered(module).values())


@pytest.mark.parametrize("capability", [86, 90])
@pytest.mark.parametrize(
    ("width", "dtype"), [(8192, torch.float32), (16384, torch.bfloat16), (65536, torch.bfloat16)], ids=str
)
def test_steps_that_are_read_ahead_fit_shared_memory(width, dtype, capability):
    kernels = rows_beside_columns(width, dtype, capability=capability)
    codes = compile_kernels(kernels, capability, KernelCache(None))
    assert max(code.shared for code in codes.values()) <= SHARED[capability]
    assert capability == 86 or any(kernel.stages > 1 for kernel in kernels)


def test_too_much_shared_memory_is_made_less():
    """Of a schedule for a larger GPU fewer steps are read ahead."""
    kernels = rows_beside_columns(8192, torch.float32, capability=90)
    assert max(compile_kernel(kernel, 86).metadata.shared for kernel in kernels) > 101376
    assert max(code.shared for code in compile_kernels(kernels, 86, KernelCache(None)).values()) <= 101376


def test_registers_leave_room_for_programs_beside_columns():
    """Of the backward of a layer norm, two programs of 8 warps share a multiprocessor."""
    (kernel,) = (kernel for kernel in rows_beside_columns(4096, torch.bfloat16) if kernel.stages > 1)
    assert (kernel.warps, kernel.resident) == (8, 2)
    assert ".reqntid 256\n.minnctapersm 2\n" in compile_kernel(kernel, 90).asm["ptx"]


def test_more_programs_than_a_multiprocessor_has_warps_for_are_refused():
    module = program(lambda x: x.sum(-1), torch.randn(9, 64))
    edit(module, resident=65)
    with pytest.raises(bascule.UserError, match="65 programs of 1 warps on a multiprocessor"):
        lowered(module)


def test_neighbours_of_a_schedule_keep_the_warps_that_have_room():
    module = program(lambda x: x.sum(-1), torch.randn(9, 4096))
    edit(module, resident=4, warps=4)
    with module.context:
        (kernel,) = filter(None, map(kernel_op, functions(module)))
        found = {near.change: str(near.schedule) for near in neighbours(kernel)}
    assert "resident = 2 : i64" in found["warps 4 -> 8"] and "resident = 8 : i64" in found["warps 4 -> 2"]
