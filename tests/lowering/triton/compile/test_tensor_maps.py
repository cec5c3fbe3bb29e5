"""Contractions with tensor descriptors to machine code, without a GPU: instructions, and what the launcher is told of tensor maps."""

import re
from dataclasses import replace

import pytest
import torch
from bascule.dialect.errors import CompilerError, UserError
from bascule.lowering.triton import compile_kernel, compile_kernels
from bascule.lowering.triton.compile.kernel_cache import KernelCache
from bascule.lowering.triton.compile.parallel import start_compiling
from bascule.lowering.triton.compile.tensor_maps import spelled, tensor_maps

from bascule.cache.disk.store import Store
from bascule.cache.stores.backed_store import BackedStore
from tests.lowering.triton.check import check as run_and_compare
from tests.lowering.triton.check import lowered, program

NOWHERE = KernelCache(None)


def product(x, w):
    return (x[:, :, None].float() * w.float()).sum(1)


def batched(x, w):
    return (x[:, :, :, None].float() * w[:, None].float()).sum(2)


def kernel_of(function, *sizes, dtype=torch.bfloat16, machine=90, **given):
    inputs = [torch.zeros(size, dtype=dtype) for size in sizes]
    (kernel,) = lowered(program(function, *inputs, machine=machine, **given)).values()
    return kernel


def transposed(x, w):
    return product(x.t(), w.t())


KERNELS = {
    "plain": (product, (128, 256), (256, 512)),
    "transposed": (transposed, (256, 128), (512, 256)),
    "batch": (batched, (3, 64, 128), (3, 128, 64)),
    "ragged": (product, (100, 200), (200, 72)),
    "one factor": (product, (100, 201), (201, 72)),
    "a step": (product, (64, 48), (48, 64)),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_boxes_are_copied_by_the_hardware(name, dtype):
    function, *sizes = KERNELS[name]
    kernel = kernel_of(function, *sizes, dtype=dtype)
    ptx = compile_kernel(kernel, 90).asm["ptx"]
    assert len(kernel.descriptors) == (1 if name == "one factor" else 2)
    assert "wgmma.mma_async" in ptx and ("cp.async.cg" in ptx or "ld.global" in ptx) == (name == "one factor")
    assert ptx.index("griddepcontrol.wait") < ptx.index("cp.async.bulk.tensor")
    bytes_ = [int(found or 8) for found in re.findall(r"\.param [^,\n]*_param_\d+(?:\[(\d+)\])?,?\n", ptx)]
    assert bytes_ == [8, 8, 8, *[128] * len(kernel.descriptors), 8, 8]  # what the launcher gives, and Triton's own two


def test_other_architectures():
    """One that has them, and one that has none, of the same source and of what was scheduled for another."""
    assert "cp.async.bulk.tensor" in compile_kernel(kernel_of(*KERNELS["plain"], machine=100), 100).asm["ptx"]
    older = kernel_of(*KERNELS["plain"], machine=80)
    assert not older.descriptors and "tensordesc" not in older.ttir
    ptx = compile_kernel(older, 80).asm["ptx"]
    assert "cp.async.cg.shared" in ptx and "mma.sync" in ptx
    with pytest.raises(UserError, match="is scheduled for tensor descriptors, which sm_80 does not have"):
        compile_kernel(kernel_of(*KERNELS["plain"]), 80)


def test_the_launcher_is_told_of_them():
    kernel = kernel_of(lambda x, w: batched(x[:, 2:], w), (3, 66, 128), (3, 128, 64))
    (code,) = compile_kernels([kernel], 90, NOWHERE).values()
    assert sorted(code.maps, key=lambda each: each["offset"]) == [
        {
            "parameter": code.maps[1]["parameter"],
            "offset": 0,
            "element": 9,
            "swizzle": 3,
            "sizes": [64, 128, 3],
            "strides": [128, 16384],
            "box": [64, 64, 1],
        },
        {
            "parameter": code.maps[0]["parameter"],
            "offset": 512,
            "element": 9,
            "swizzle": 3,
            "sizes": [128, 64, 3],
            "strides": [256, 16896],
            "box": [64, 64, 1],
        },
    ]
    assert {each["parameter"] for each in code.maps} == {0, 1}


def test_the_disk_keeps_them(tmp_path):
    kernel, cache = kernel_of(*KERNELS["plain"]), KernelCache(BackedStore(Store(tmp_path, "kernels", 1 << 30)))
    first, second = (compile_kernels([kernel], 90, cache) for _ in range(2))
    assert first == second and len(first[kernel.name].maps) == 2


def test_tensors_of_other_sizes_are_other_kernels():
    """Their text may be the same."""
    kernel = kernel_of(*KERNELS["plain"])
    x, w = kernel.descriptors
    other = replace(kernel, name="other", descriptors=[x | {"sizes": [64, 256]}, w])
    assert len(set(start_compiling([kernel, other], 90, NOWHERE).keys.values())) == 2


def test_triton_tells_of_something_else():
    with pytest.raises(CompilerError, match="Triton tells of tensor maps of boxes"):
        tensor_maps(kernel_of(*KERNELS["plain"]), [{"block_size": [64, 64]}], "")
    with pytest.raises(CompilerError, match="has no copy for each of its 2 tensor maps"):
        tensor_maps(
            kernel_of(*KERNELS["plain"]), 2 * [{"block_size": [64, 64]}], "tt.func @f(%x: !tt.tensordesc<64x64xbf16>)"
        )


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.8.0", "3.10.0+git1234"])
def test_each_triton_has_its_spelling(version):
    wrapped, bare = "(!tt.tensordesc<tensor<1x64x64xf16>>, i32)", "(!tt.tensordesc<1x64x64xf16>, i32)"
    assert spelled(wrapped, version) == (wrapped if version < "3.8" and "3.10" not in version else bare)


def test_places_of_64_bits():
    """Indices may need them; places along one dim have 32."""
    kernel = kernel_of(*KERNELS["batch"], index_bits=64)
    assert kernel.ttir.count("arith.trunci") >= 3
    assert "cp.async.bulk.tensor" in compile_kernel(kernel, 90).asm["ptx"]
    inputs = [torch.randn(size).bfloat16() for size in KERNELS["batch"][1:]]
    run_and_compare(batched, *inputs, index_bits=64, tolerance={"rtol": 1e-4, "atol": 1e-4})
