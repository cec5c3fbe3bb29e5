"""Rows that several programs share: each holds its part, and what they reduced is exchanged."""

import math

import pytest
import torch
import torch.nn.functional as F
from bascule.dialect.analysis.memory.in_place import InPlace
from bascule.dialect.errors import UserError
from bascule.dialect.ir.attributes import ScheduleAttr
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.tuning.neighbours import neighbours
from bascule.lowering.triton import TritonKernel, compile_kernel

from tests.lowering.triton.check import TOLERANCE, edit, lowered, program, run

PROGRAMS, STEP = 4, 64
LENGTHS = [
    512,
    1000,
    1300,
]  # two whole tiles of each program; four, the last of which is short; six, and the last program has less than four


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def kernels_of(module: ir.Module) -> list[ir.Operation]:
    return [kernel for kernel in map(kernel_op, functions(module)) if kernel is not None]


def share(module: ir.Module, programs: int = PROGRAMS) -> ir.Module:
    """Has each row shared by so many programs."""
    with module.context:
        for kernel in kernels_of(module):
            keys = {entry.name: entry.attr for entry in ir.DictAttr(kernel.attributes["schedule"].config)}
            number = lambda value: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)  # noqa: E731
            held = {"held": ir.BoolAttr.get(True), "fold": number(0), "step": number(STEP)}
            loops = [{entry.name: entry.attr for entry in ir.DictAttr(loop)} | held for loop in keys["loops"]]
            keys["loops"] = ir.ArrayAttr.get([ir.DictAttr.get(loop) for loop in loops])
            keys |= {"tile": ir.DenseI64ArrayAttr.get([1]), "cluster": number(programs), "warps": number(2)}
            kernel.attributes["schedule"] = ScheduleAttr.get(ir.DictAttr.get(keys))
    return module


def the_kernel(module: ir.Module) -> TritonKernel:
    (kernel,) = lowered(module).values()
    return kernel


def shared(function, *inputs: torch.Tensor, tolerance: dict | None = None) -> None:
    """`function` gives what eager gives, where programs share rows."""
    want = function(*inputs)
    for programs in (2, PROGRAMS, 8):
        module = share(program(function, *inputs), programs)
        assert f"// of {programs} programs" in the_kernel(module).ttir
        got = run(module, list(inputs))
        for g, w in zip(got, [want] if isinstance(want, torch.Tensor) else want, strict=True):
            torch.testing.assert_close(g, w, equal_nan=True, **(tolerance or TOLERANCE.get(w.dtype, {})))


def rows(length: int, dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(9, length).to(dtype)
    x[1, : length - 200], x[2, 70] = -math.inf, math.nan
    return x


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_softmax(dtype, length):
    shared(lambda x: F.softmax(x, -1), rows(length, dtype))
    shared(lambda x: F.log_softmax(x, -1), rows(length, dtype))


@pytest.mark.parametrize("length", LENGTHS)
def test_norms(length):
    x, w, b = torch.randn(9, length) + 10, torch.randn(length), torch.randn(length)
    shared(lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), x, w, b, tolerance={"rtol": 1e-4, "atol": 1e-4})
    shared(lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True)) * w, x, w)


def test_one_program_stores_what_a_row_has_once():
    """The interpreter refuses two programs that store to one place."""
    x = torch.randn(9, 1000)
    shared(lambda x: (F.normalize(x, dim=-1), x.norm(dim=-1), x.amax(-1)), x)


def test_kinds_of_reductions():
    x = torch.randn(9, 1000)
    shared(lambda x: (x * (x > 3.1).any(-1, keepdim=True), x + (x > -3.1).all(-1, keepdim=True)), x)
    n = torch.randint(-9, 9, (9, 1000), dtype=torch.int32)
    shared(lambda n: n - n.sum(-1, keepdim=True, dtype=torch.int32) + n.amin(-1, keepdim=True), n)
    shared(lambda x: x - (1 + x / 1000).prod(-1, keepdim=True), x)


def test_a_backward():
    y, g = F.softmax(torch.randn(9, 1000), -1), torch.randn(9, 1000)
    shared(lambda g, y: torch.ops.aten._softmax_backward_data(g, y, -1, torch.float32), g, y)


def clusters(function, *sizes: int, machine: int = 90, dtype: torch.dtype = torch.float32) -> set[int]:
    x = torch.empty(sizes, dtype=dtype, device="meta")
    return {kernel.cluster for kernel in lowered(program(function, x, machine=machine)).values()}


def softmax(x):
    return F.softmax(x, -1)


def test_long_rows_of_wide_numbers_are_shared():
    assert [clusters(softmax, 4096, n) for n in (32768, 65536, 128256, 163840, 1 << 20)] == [{1}, {8}, {8}, {8}, {1}]
    assert clusters(softmax, 4096, 131072, machine=100) == {8}
    assert clusters(lambda x: F.layer_norm(x, x.shape[-1:], torch.ones(x.shape[-1], device="meta")), 512, 163840) == {8}
    assert clusters(lambda x: F.softmax(x, -1) * x.amin(-1, keepdim=True), 512, 65536) == {8}


@pytest.mark.parametrize("machine", [80, 89, 120])
def test_gpus_without_clusters_walk(machine):
    assert clusters(softmax, 4096, 65536, machine=machine) == {1}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / x.double().sum(-1, keepdim=True),
        lambda x: x - x.argmax(-1, keepdim=True),
        lambda x: x.cumsum(-1) / x.sum(-1, keepdim=True),
        lambda x: torch.logsumexp(x, -1),
        lambda x: x.sum(-1, keepdim=True).expand(x.shape) + 1,
    ],
    ids=["64 bits", "positions", "a scan", "reductions", "nothing read again"],
)
def test_other_rows_are_not_shared(function):
    assert clusters(function, 4096, 65536) == {1}


def test_narrow_numbers_are_read_again():
    assert clusters(softmax, 4096, 131072, dtype=torch.bfloat16) == {1}


def test_rows_that_do_not_fit_are_walked():
    g, y = (torch.empty(512, 131072, device="meta") for _ in range(2))
    backward = lambda g, y: torch.ops.aten._softmax_backward_data(g, y, -1, torch.float32)  # noqa: E731
    assert the_kernel(program(backward, g, y)).cluster == 1
    assert the_kernel(program(backward, g[:, :65536].clone(), y[:, :65536].clone())).cluster == 8


@pytest.mark.parametrize("capability", [90, 100])
def test_compiles(capability):
    module = share(program(lambda x: F.layer_norm(x, x.shape[-1:]), torch.randn(9, 1000)))
    ptx = compile_kernel(the_kernel(module), capability).asm["ptx"]
    assert f".reqnctapercluster {PROGRAMS}, 1, 1\n" in ptx and ptx.count("mapa.shared::cluster") == 1


def test_each_exchange_has_memory_of_its_own_and_the_first_waits_for_all_to_start():
    kernel = the_kernel(share(program(softmax, torch.randn(9, 1000))))
    ptx = compile_kernel(kernel, 90).asm["ptx"]
    assert ptx.count(f"slots[{4 * PROGRAMS}]") == 2
    names = [part.split(";")[0] for part in ptx.split("barrier.cluster.")[1:]]
    assert names == ["arrive.relaxed", "wait.acquire", *["arrive.release", "wait.acquire"] * 2]


def test_other_gpus_are_refused():
    kernel = the_kernel(share(program(softmax, torch.randn(9, 1000))))
    with pytest.raises(UserError, match="scheduled for clusters of 4 programs, which sm_80 does not have"):
        compile_kernel(kernel, 80)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"cluster": 3}, "clusters of 3 programs"),
        ({"cluster": 16}, "clusters of 16 programs"),
        ({"cluster": 0}, "clusters of 0 programs"),
        ({"capability": 80}, "clusters of 4 programs for sm_80, which has none"),
        ({"tile": 2}, "for a tile of several points"),
        ({"step": 8}, "holds 1000 points in tiles of 8"),
    ],
    ids=str,
)
def test_schedules_that_do_not_fit_are_refused(keys, reason):
    module = share(program(softmax, torch.randn(9, 1000)))
    edit(module, **keys)
    with pytest.raises(UserError, match=reason):
        lowered(module)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.cumsum(-1), "a bascule.scan is not cut into parts"),
        (lambda x: x.argmax(-1), "a reduction of kind 'argmax'"),
        (lambda x: x.double().sum(-1), "a reduction of kind 'sum' of f64"),
        (lambda x: x + 1, "loops of which nothing is exchanged"),
    ],
    ids=["scan", "positions", "64 bits", "no loops"],
)
def test_kernels_that_cannot_be_shared_are_refused(function, reason):
    module = share(program(function, torch.randn(9, 1000)))
    with pytest.raises(UserError, match=reason):
        lowered(module)


def test_loops_that_are_walked_are_refused():
    module = program(softmax, torch.randn(9, 40000))
    edit(module, cluster=2)
    with pytest.raises(UserError, match="clusters of 2 programs for loops that are not held"):
        lowered(module)


def test_neighbours_of_a_schedule_run():
    x = torch.randn(9, 1000)
    module = share(program(softmax, x))
    (kernel,) = kernels_of(module)
    with module.context:
        found = {near.change: near.schedule for near in neighbours(kernel)}
    assert {"cluster 4 -> 8", "cluster 4 -> 2"} < found.keys() and "tile x 2" not in found
    for change, schedule in found.items():
        kernel.attributes["schedule"] = schedule
        torch.testing.assert_close(run(module, [x])[0], F.softmax(x, -1), msg=change)


def overwrites(function, *inputs: torch.Tensor, programs: int) -> list[bool]:
    """Whether the result may be made in the memory of each operand."""
    module = program(function, *inputs)
    if programs > 1:
        share(module, programs)
    with module.context:
        (kernel,) = kernels_of(module)
        analysis = InPlace(kernel.parent.operation)
        return [analysis.allows(number, len(inputs)) for number in range(len(inputs))]


def test_a_result_takes_the_place_of_what_all_programs_have_read():
    x, y = torch.randn(9, 1000), torch.randn(9, 1000)
    assert overwrites(softmax, x, programs=8) == [True]  # it is read in a reduction, or at the point at hand
    norm = lambda x, y: F.normalize(x, dim=-1) + y  # noqa: E731
    assert overwrites(norm, x, y, programs=8) == [True, True]
    first = lambda x, y: (x - x.amax(-1, keepdim=True)) * y[:, :1]  # noqa: E731
    assert [overwrites(first, x, y, programs=n) for n in (1, 8)] == [[True, True], [True, False]]
