"""PTX edits: code that the assembler gets wrong does not reach it, and PTX that is not changed as it was to be does not either."""

from dataclasses import replace

import pytest
import torch
from bascule.dialect.errors import CompilerError
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile.ptx_edits import (
    in_clusters,
    with_room,
    with_selections_of_floats,
    with_waits_behind_loops,
    without_packed_additions,
    without_repeated_waits,
)
from bascule.lowering.triton.values.dependent_launch import WAIT, for_capability

from tests.lowering.triton.check import lowered, program

aten = torch.ops.aten


def test_packed_additions_become_two():
    ptx = "mov.b32 %r1, 3;\n\tadd.s16x2 \t%r2, %r0, %r1;\n\tadd.s32 %r4, %r2, %r2;"
    apart = without_packed_additions(ptx)
    assert "16x2" not in apart and apart.count("add.s16 ") == 2
    assert apart.startswith("mov.b32 %r1, 3;") and apart.endswith("add.s32 %r4, %r2, %r2;")


def test_none_is_left_in_the_gradient_of_a_pooling():
    # LLVM makes pairs of the indices of 180 elements.
    def pool(g, x, i):
        return aten.max_pool3d_with_indices_backward(g, x, [3, 3, 3], [2, 2, 2], [0, 0, 0], [1, 2, 1], True, i)

    x, g = torch.randn(1, 2, 3, 6, 5).bfloat16(), torch.randn(1, 2, 1, 2, 2).bfloat16()
    module = program(pool, g, x, torch.zeros(1, 2, 1, 2, 2, dtype=torch.int64))
    (kernel,) = lowered(module).values()
    asm = compile_kernel(kernel, 90).asm
    assert "add.s16x2" not in asm["ptx"] and "VIADD.16x2" not in asm["sass"]


WAIT_ALL, PRODUCT = (
    "\twgmma.wait_group.sync.aligned 0;",
    "\twgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%r1};",
)


def test_a_wait_behind_a_wait_is_left_out():
    ptx = [PRODUCT, WAIT_ALL, "\tmov.b32 %r1, %r2;", WAIT_ALL, PRODUCT, WAIT_ALL]
    assert without_repeated_waits("\n".join(ptx)).split("\n") == [*ptx[:3], *ptx[4:]]


@pytest.mark.parametrize(
    "between",
    [PRODUCT, "$L__BB0_2:", "\twgmma.wait_group.sync.aligned 1;\n" + PRODUCT],
    ids=["product", "label", "both"],
)
def test_a_wait_for_something_stays(between):
    ptx = "\n".join([PRODUCT, WAIT_ALL, between, WAIT_ALL])
    assert without_repeated_waits(ptx) == ptx


LOOP = [
    "\t@%p1 bra \t$L__BB0_2;",
    "\tbra.uni \t$L__BB0_1;",
    "$L__BB0_2:",
    PRODUCT,
    "\twgmma.wait_group.sync.aligned 1;",
    "\t@%p2 bra \t$L__BB0_2;",
    "\tbra.uni \t$L__BB0_3;",
    "$L__BB0_1:",
    "\tmov.b32 %r1, 0f00000000;",
    "$L__BB0_3:",
    "\tadd.s32 %r2, %r3, %r4;",
    WAIT_ALL,
]


def test_products_are_waited_for_where_a_loop_ends():
    assert with_waits_behind_loops("\n".join(LOOP)).split("\n") == [*LOOP[:6], WAIT_ALL, *LOOP[6:]]


@pytest.mark.parametrize(
    "place, line",
    [(3, "\tadd.s32 %r1, %r1, 1;"), (11, PRODUCT), (10, "$L__BB0_4:"), (6, "\tret;"), (2, "$L__BB0_5:")],
    ids=["no products", "products before the wait", "another label", "it goes on at once", "no loop"],
)
def test_other_ends_have_no_wait(place, line):
    ptx = "\n".join([*LOOP[:place], line, *LOOP[place + 1 :]])
    assert with_waits_behind_loops(ptx) == ptx


KERNEL = ".visible .entry kernel(\n\t.param .u64 p\n)\n.reqntid 128\n{\n\tret;\n}\n"
DIRECTIVES = [(with_room, ".minnctapersm 2"), (in_clusters, ".reqnctapercluster 2, 1, 1")]
ALTERED = {
    "in another place": KERNEL.replace("\n.reqntid", " .reqntid"),
    "of another name": KERNEL.replace(".reqntid", ".maxntid"),
    "of two kernels": KERNEL + KERNEL.replace("kernel", "other"),
    "of a function": KERNEL.replace(".entry", ".func"),
}


@pytest.mark.parametrize(("change", "directive"), DIRECTIVES)
def test_a_directive_stands_among_those_of_the_kernel(change, directive):
    assert change(KERNEL, 2) == KERNEL.replace("128\n", f"128\n{directive}\n")


@pytest.mark.parametrize("altered", ALTERED)
@pytest.mark.parametrize(("change", "directive"), DIRECTIVES)
def test_a_directive_that_finds_no_place_is_an_error(change, directive, altered):
    with pytest.raises(CompilerError, match="would run without it"):
        change(ALTERED[altered], 2)


@pytest.mark.parametrize(("change", "directive"), DIRECTIVES)
def test_a_directive_is_not_written_twice(change, directive):
    with pytest.raises(CompilerError, match="would run without it"):
        change(change(KERNEL, 2), 4)


@pytest.mark.parametrize("line", ["add.s16x2 %r2, {%rs1, %rs2}, %r1;", "@%p1 add.sat.s16x2 %r2, %r0, 65537;"])
def test_a_packed_addition_in_another_form_is_an_error(line):
    with pytest.raises(CompilerError, match="16x2"):
        without_packed_additions(f"\t{line}\n")


def test_a_wait_in_another_form_is_an_error_where_the_gpu_has_none():
    assert "griddepcontrol" not in for_capability(f'"{WAIT}"', 80)
    with pytest.raises(CompilerError, match="sm_80"):
        for_capability('"griddepcontrol.wait.all;"', 80)


def test_a_kernel_whose_ptx_has_no_place_for_its_cluster_is_refused(monkeypatch):
    from triton.backends.nvidia.compiler import CUDABackend

    (kernel,) = lowered(program(torch.sin, torch.randn(4096))).values()
    make = CUDABackend.make_ptx

    def altered(self, *arguments):
        return make(self, *arguments).replace(".reqntid", ".maxntid")

    monkeypatch.setattr(CUDABackend, "make_ptx", altered)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    with pytest.raises(CompilerError, match="reqnctapercluster"):
        compile_kernel(replace(kernel, cluster=2), 90)


def test_sums_of_tensor_cores_or_zero_are_selected_as_floats():
    product = "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%r1, %r2}, %rd1, %rd2, p, 1, 1;"
    kept = ["selp.b32 \t%r3, %r9, 0, %p1;", "selp.b32 \t%r4, %r1, %r2, %p1;"]  # no sum, and nothing of zero
    given = ["selp.b32 \t%r5, %r1, 0, %p1;", "selp.b32 \t%r6, 0f00000000, %r2, %p1;"]
    wanted = ["selp.f32 \t%r5, %r1, 0f00000000, %p1;", "selp.f32 \t%r6, 0f00000000, %r2, %p1;"]
    assert with_selections_of_floats("\n".join([product, *kept, *given])) == "\n".join([product, *kept, *wanted])
    assert with_selections_of_floats("\n".join(given)) == "\n".join(given)
