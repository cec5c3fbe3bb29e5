"""Contractions in which a warp group loads for two that multiply: in the interpreter, as machine code, and for each Triton."""

import re

import pytest
import torch
from bascule.dialect.errors import UserError
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.scheduling.gpu import contractions
from bascule.dialect.scheduling.tuning.neighbours import neighbours
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile import compilation, ptxas
from bascule.lowering.triton.compile.warp_groups import as_made_by
from bascule.lowering.triton.values.builder import FLATTEN, SPECIALIZE
from torch.nn import functional as F

from tests.lowering.triton.check import edit, lowered, program
from tests.lowering.triton.kernels import test_contractions as dense
from tests.lowering.triton.kernels.test_contractions import matrices
from tests.lowering.triton.kernels.test_tiles_in_turn import COLUMNS, FUSED, ROWS, SUMMED, kernels

__all__ = ["kernels"]

BF16 = torch.bfloat16
MORE = {
    "columns of two": (lambda x, w, c, r: F.relu(x @ w + c) * r[:, None], [(ROWS, SUMMED), (SUMMED, COLUMNS), (COLUMNS,), (ROWS,)]),
    "a number": (lambda x, w, s: (x @ w) * s, [(ROWS, SUMMED), (SUMMED, COLUMNS), (1,)]),
    "two residual sums": (lambda x, w, r, s: (x @ w) * s + r, [(ROWS, SUMMED), (SUMMED, COLUMNS), (ROWS, COLUMNS), (ROWS, COLUMNS)]),
}  # fmt: skip
CASES = {name: case for name, case in (FUSED | MORE).items() if name not in ("two joined", "a batch")}


@pytest.fixture(autouse=True)
def few_tiles_do(monkeypatch):
    """So do sums which something is read after, for which a schedule may ask."""
    monkeypatch.setattr(contractions, "TURNS", 1)
    monkeypatch.setattr(contractions, "_reads_more", lambda domain: False)


@pytest.mark.parametrize("name", CASES)
def test_products(name, kernels):
    function, sizes = CASES[name]
    found, wanted = dense.run(function, *matrices(BF16, *sizes))
    dense.check(found, wanted, BF16, 64 * SUMMED)
    assert any(SPECIALIZE in kernel.ttir for kernel in kernels)


@pytest.mark.parametrize("name", ["two joined", "a batch"])
def test_of_others_all_warps_load_and_multiply(name, kernels):
    function, sizes = FUSED[name]
    dense.run(function, *matrices(BF16, *sizes))
    assert kernels and not any(SPECIALIZE in kernel.ttir for kernel in kernels)


def groups_of(ttgir: str) -> list[str]:
    """The one that loads, and the two that multiply."""
    return re.split(r"\n *(?:default|partition\d\([^\n]*) \{\n", ttgir[ttgir.index("ttg.warp_specialize(") :])[1:]


@pytest.mark.parametrize("name", CASES)
def test_machine_code(name, kernels):
    """A group loads, each of two others multiplies and stores rows of its own. Where those of the second are loaded Triton adds the first's to
    their place; where they are stored their range has these already, and one value for both places would have them twice."""
    function, sizes = CASES[name]
    dense.run(function, *matrices(BF16, *sizes))
    (kernel,) = [kernel for kernel in kernels if SPECIALIZE in kernel.ttir]
    code = compile_kernel(kernel, 90)
    loads, first, second = groups_of(code.asm["ttgir"])
    assert loads.count("async_tma_copy_global_to_local") == 3 and "warp_group_dot" not in loads
    for group, begin in ((first, 0), (second, 64)):
        assert group.count("ttng.warp_group_dot ") == 1 and "async_tma_copy" not in group
        assert f"end = {begin + 64} : i32, start = {begin} : i32" in group
    added = r"arith\.addi %\S+, %c64_i32"
    assert len(re.findall(added, loads)) == 1 and not re.search(added, second)
    assert code.metadata.num_warps == 12
    assert " 0 bytes spill stores" in ptxas.log(code.asm["ptx"], 90)
    made = compilation.machine_code(kernel, 90)
    (x,) = [each for each in made.maps if each["sizes"] == [SUMMED, ROWS]]
    assert (
        x["box"] == [64, 64] and made.shared <= 227 << 10
    )  # a box of the whole tile would overwrite what the other group reads


@pytest.mark.parametrize(
    "version, capability, made", [("3.6.0", 90, True), ("3.6.0", 100, False), ("3.8.0", 90, False)]
)
def test_where_there_are_none_all_warps_load_and_multiply(version, capability, made, kernels):
    function, sizes = CASES["product"]
    dense.run(function, *matrices(BF16, *sizes))
    (kernel,) = kernels
    given = as_made_by(kernel, version, capability)
    assert (kernel.warps, given.warps) == (4, 4 if made else 8)
    assert (SPECIALIZE in given.ttir, FLATTEN in given.ttir) == (made, not made)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"capability": 80}, "for sm_80, which has none"),
        ({"warps": 4}, "2 warp groups that only multiply for 4 warps"),
        ({"consumers": 3}, "3 warp groups that only multiply for 8 warps"),
        ({"programs": 0}, "one sum of products by descriptors, tile after tile"),
    ],
    ids=str,
)
def test_schedules_that_do_not_fit_are_refused(keys, reason):
    x, w = matrices(BF16, (2048, 128), (128, 4096))
    module = program(lambda x, w: (x[:, :, None].float() * w.float()).sum(1).to(BF16), x, w, machine=90)
    edit(module, **keys)
    with pytest.raises(UserError, match=reason):
        lowered(module)


def test_schedules_near_one_fit():
    x, w = matrices(BF16, (2048, 128), (128, 4096))
    module = program(lambda x, w: (x[:, :, None].float() * w.float()).sum(1).to(BF16), x, w, machine=90)
    (kernel,) = [op for op in ops_in(module.operation) if op.name == "bascule.kernel"]
    with module.context:
        found = neighbours(kernel)
        assert "consumers 2 -> 0" in {near.change for near in found}
        for near in found:
            kernel.attributes["schedule"] = near.schedule
            assert lowered(module)


def test_tiles_of_fewer_rows_are_refused():
    x, w = matrices(BF16, (64, 128), (128, 1 << 17))
    module = program(lambda x, w: (x[:, :, None].float() * w.float()).sum(1).to(BF16), x, w, machine=90)
    edit(module, consumers=2, warps=8, programs=132)
    with pytest.raises(UserError, match=r"for a tile of \[64, 256\]"):
        lowered(module)
