"""Products of operands of few bits on tensor cores, in the interpreter, against f64: floats and integers of 8 bits, weights that are widened
on the way in."""

import random
import re

import pytest
import torch
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile import ptxas
from bascule.lowering.triton.interpreter import plans
from torch.nn import functional as F

import bascule
from bascule.pipelines import DEFAULT

NAME = "expand-quantized-products"
E4M3, E5M2, BF16, F16 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16
EPS = {BF16: 2.0**-8, F16: 2.0**-11, torch.float32: 2.0**-22}


def compiled(function, inputs, form="inside"):
    """The result of `function`, compiled with kernels of that form, empty: the fastest; and the number of its launches."""
    torch._dynamo.reset()
    pipeline = ",".join(f"{NAME}{{form={form}}}" if form and name == NAME else name for name in DEFAULT)
    options = {"on_error": "raise", "target": "auto" if inputs[0].is_cuda else "interpret", "pipeline": pipeline}
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    found = torch.compile(function, backend="bascule", options=options, dynamic=False)(*inputs)
    return found, bascule.counters()["kernels"].get("launches", 0) - before


def close(found, wanted, dtype, summed):
    """One rounding to the dtype, and those of sums: `summed` is the sum of the terms' sizes. Tensor cores have 13 bits of sums of 8-bit
    floats."""
    assert found.dtype == dtype and found.shape == wanted.shape
    partial = 2.0**-12 if found.is_cuda else 2.0**-20
    error, allowed = (found.double() - wanted).abs(), EPS[dtype] * wanted.abs() + partial * summed + 1e-30
    assert (error <= allowed).all(), float((error / allowed).max())


def drawn(seed):
    return torch.Generator().manual_seed(seed)


def floats(dtype, *size, seed=0):
    return torch.randn(*size, generator=drawn(seed + sum(size))).to(dtype)


def integers(*size, seed=0):
    return torch.randint(-128, 128, size, generator=drawn(seed + sum(size)), dtype=torch.int8)


def sizes(count):
    chosen = random.Random(7)
    return [tuple(chosen.randint(1, 300) for _ in range(3)) for _ in range(count)]


FIXED = [(16, 32, 16), (64, 64, 64), (128, 256, 128), (300, 48, 17), (9, 300, 300), (2, 64, 48), (1, 128, 64)]
RAGGED = sizes(12)


def by_columns(x):
    """The same numbers, columns contiguous."""
    return x.t().contiguous().t()


def numbers(launches, x):
    """Of kernels: one more adds up the pieces of a long sum, which a GPU has for few tiles."""
    return (launches, launches + 1) if x.is_cuda and x.shape[-1] >= 4096 else (launches,)


# Floats of 8 bits


def scaled(x, w, a, b, bias=None, dtype=BF16, fast=False):
    return torch._scaled_mm(x, w, a, b, bias=bias, out_dtype=dtype, use_fast_accum=fast)


def exact(x, w, a, b, bias=None):
    found = (x.double() @ w.double()) * a.double() * b.double()
    return found if bias is None else found + bias.double()


def sizes_of_terms(x, w, a, b, bias=None):
    return exact(x.double().abs(), w.double().abs(), a.abs(), b.abs(), bias if bias is None else bias.abs())


def fp8(m, k, n, x=E4M3, w=E4M3, rowwise=True):
    scales = (torch.rand(m, 1, generator=drawn(m)), torch.rand(1, n, generator=drawn(n)))
    given = scales if rowwise else (torch.tensor(0.375), torch.tensor([2.5]))
    return [floats(x, m, k), by_columns(floats(w, k, n, seed=1)), *given]


def check_scaled(inputs, form="inside", **options):
    dtype = options.get("dtype", BF16)
    found, launches = compiled(lambda *given: scaled(*given, **options), inputs, form)
    assert launches in numbers(form != "call", inputs[0])
    close(found, exact(*inputs), dtype, sizes_of_terms(*inputs))


@pytest.mark.parametrize("size", FIXED + RAGGED, ids=str)
def test_scaled_products_of_rows(size):
    check_scaled(fp8(*size))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("types", [(E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2)], ids=str)
def test_scaled_products_of_types(types, fast):
    check_scaled(fp8(70, 160, 90, *types), fast=fast)


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("rowwise", [False, True])
def test_scales_and_a_bias(rowwise, dtype):
    inputs = fp8(40, 96, 56, rowwise=rowwise)
    check_scaled(inputs, dtype=dtype)
    check_scaled([*inputs, floats(dtype if dtype != torch.float32 else BF16, 56)], dtype=dtype)


def test_what_follows_is_in_the_kernel():
    inputs = fp8(130, 272, 80)
    found, launches = compiled(lambda *given: F.relu(scaled(*given, fast=True)) + 1, inputs)
    assert launches == 1
    close(found, exact(*inputs).relu() + 1, BF16, 1 + sizes_of_terms(*inputs))


def test_slices_of_floats_of_8_bits():
    """Strided, and beginning anywhere; neighbours are NaN."""
    x, w, a, b = fp8(50, 80, 40)
    large = torch.full((101, 120), float("nan")).to(E4M3)
    large[1::2, 5:85] = x
    found, _ = compiled(lambda large, w, a, b: scaled(large[1::2, 5:85], w, a, b), [large, w, a, b])
    close(found, exact(x, w, a, b), BF16, sizes_of_terms(x, w, a, b))


def test_nan_and_infinity_of_8_bits():
    x, w, a, b = fp8(40, 64, 48, E5M2)
    wide = x.float()
    wide[3, 7], wide[5, 63] = float("nan"), float("inf")
    x = wide.to(E5M2)
    found, _ = compiled(scaled, [x, w, a, b])
    wanted = exact(x, w, a, b)
    assert torch.equal(found.isnan(), wanted.isnan()) and torch.equal(found.isinf(), wanted.isinf())
    assert found[3].isnan().all() and found[5].isinf().any()


def test_rows_in_memory_across_what_is_summed_stay_a_call():
    x, w, a, b = fp8(32, 64, 48, rowwise=False)  # the oldest PyTorch has no others on a CPU
    check_scaled([by_columns(x), w, a, b], form="call")
    _, launches = compiled(scaled, [by_columns(x), w, a, b])
    assert not launches


# Integers of 8 bits


@pytest.mark.parametrize("size", FIXED + RAGGED, ids=str)
def test_products_of_integers(size):
    m, k, n = size
    x, w = integers(m, k), by_columns(integers(k, n, seed=1))
    found, launches = compiled(torch._int_mm, [x, w])
    assert launches == 1 and found.dtype == torch.int32
    assert torch.equal(found.double(), x.double() @ w.double())


def test_integers_are_dequantized_in_the_kernel():
    x, w, a, b = integers(70, 160), by_columns(integers(160, 90)), torch.rand(70, 1), torch.rand(90)
    found, launches = compiled(lambda x, w, a, b: (torch._int_mm(x, w).float() * a * b).to(BF16), [x, w, a, b])
    assert launches == 1
    close(found, (x.double() @ w.double()) * a.double() * b.double(), BF16, 0)


def test_sums_of_integers_wrap_nowhere():
    x, w = torch.full((20, 4096), -128, dtype=torch.int8), by_columns(torch.full((4096, 24), -128, dtype=torch.int8))
    found, _ = compiled(torch._int_mm, [x, w])
    assert (found == 4096 << 14).all()


# Weights of few bits

WEIGHTS = {
    "scale of the weight": lambda x, w, s: F.linear(x, w.to(x.dtype) * s[:, None]),
    "scale of the result": lambda x, w, s: F.linear(x, w.to(x.dtype)) * s,
    "by mm": lambda x, w, s: (x @ w.t().to(x.dtype)) * s,
    "by addmm": lambda x, w, s: torch.addmm(s, x, w.to(x.dtype).t(), beta=0.5, alpha=0.25).relu(),
    "in f32": lambda x, w, s: F.linear(x, (w.float() * s[:, None]).to(x.dtype)),
    "of two dims": lambda x, w, s: F.silu(F.linear(x[None], w.to(x.dtype)) * s),
}


def weight_only(m, k, n, dtype=BF16, bits=torch.int8):
    w = integers(n, k) if bits == torch.int8 else floats(bits, n, k)
    return [floats(dtype, m, k), w, (torch.rand(n, generator=drawn(n)) / 64).to(dtype)]


def check_weights(function, inputs, launches, form="inside"):
    found, counted = compiled(function, inputs, form)
    assert counted in numbers(launches, inputs[0])
    rounded = function(*(x.double() for x in inputs))
    largest = F.linear(*(x.double().abs() for x in inputs[:2])) * inputs[2].double().abs().clamp(min=2.0**-8)
    assert found.dtype == inputs[0].dtype
    error = (found.double() - rounded).abs()
    # Roundings of the scaled weight, of the result, and of what is made of it.
    assert (error <= EPS[found.dtype] * (2 * rounded.abs() + largest / 2) + 1e-6).all(), float(error.max())


@pytest.mark.parametrize("form, launches", [("inside", 1), ("once", 2)])
@pytest.mark.parametrize("name", WEIGHTS)
def test_spellings(name, form, launches):
    check_weights(WEIGHTS[name], weight_only(70, 160, 90), launches, form)


@pytest.mark.parametrize("size", FIXED + RAGGED, ids=str)
@pytest.mark.parametrize("name", ["scale of the weight", "scale of the result"])
def test_weights_of_8_bits(name, size):
    check_weights(WEIGHTS[name], weight_only(*size), 1)


@pytest.mark.parametrize("bits", [torch.int8, E4M3, E5M2], ids=str)
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5, 100])
def test_types_of_weights(rows, dtype, bits):
    check_weights(WEIGHTS["scale of the result"], weight_only(rows, 96, 80, dtype, bits), 1)


LAYOUTS = {
    "x transposed": lambda x, w, s: (by_columns(x), w, s),
    "w transposed": lambda x, w, s: (x, by_columns(w), s),
    "strided": lambda x, w, s: (x[::2], w[:, ::1][::2], s[::2]),
    "a slice": lambda x, w, s: (x[3:, 5:150], w[1:, 3:148], s[1:]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [1, 4, 70])
def test_weights_that_lie_otherwise(layout, rows):
    x, w, s = LAYOUTS[layout](*weight_only(rows + 3 if layout == "a slice" else 2 * rows, 160, 90))
    check_weights(WEIGHTS["scale of the weight"], [x, w, s], 1)


def test_joined_products_of_weights_are_one_kernel():
    x, v, s = weight_only(70, 96, 80)
    w = integers(80, 96, seed=3)
    found, launches = compiled(
        lambda x, v, w, s: F.silu(F.linear(x, v.to(BF16)) * s) * (F.linear(x, w.to(BF16)) * s), [x, v, w, s]
    )
    wide = [t.double() for t in (x, v, w, s)]
    wanted = F.silu(F.linear(wide[0], wide[1]) * wide[3]) * (F.linear(wide[0], wide[2]) * wide[3])
    assert launches == 1
    assert ((found.double() - wanted).abs() <= 2.0**-6 * (wanted.abs() + wanted.abs().max() / 8)).all()


def test_a_weight_that_something_else_reads_is_widened_once():
    """It is in memory anyway."""
    x, w, _ = weight_only(70, 96, 80)

    def function(x, w):
        wide = w.to(BF16)
        return F.linear(x, wide), wide.sum(1), wide

    (found, _, _), _ = compiled(function, [x, w])
    close(found, x.double() @ w.double().t(), BF16, 96 * 128)


@pytest.mark.parametrize("form", ["inside", "once"])
@pytest.mark.parametrize("bits", [torch.int8, E4M3], ids=str)
def test_both_operands_are_of_few_bits(bits, form):
    """One of them is computed in the product, the other one before it; or both before it, in one launch."""
    x, w = (integers(70, 96), integers(80, 96)) if bits == torch.int8 else (floats(bits, 70, 96), floats(bits, 80, 96))
    found, launches = compiled(lambda x, w: F.linear(x.to(BF16), w.to(BF16)), [x, w], form)
    assert launches == 2
    close(found, x.double() @ w.double().t(), BF16, x.double().abs() @ w.double().abs().t())


def test_operands_that_are_quantized_in_the_graph():
    x, w, a, b = fp8(70, 96, 80)
    found, launches = compiled(lambda x, w, a, b: scaled((x * 2).to(E4M3), w, a, b), [x.to(BF16), w, a, b])
    assert launches == 2
    close(found, exact((x.double() * 2).to(E4M3), w, a, b), BF16, sizes_of_terms(x.double() * 2, w, a, b))


def test_batches_of_weights():
    x, w = floats(BF16, 3, 40, 64), integers(3, 64, 56)
    found, launches = compiled(lambda x, w: torch.bmm(x, w.to(BF16)).relu(), [x, w])
    assert launches == 1
    close(found, (x.double() @ w.double()).relu(), BF16, 64 * 128)


# Elements several of which are in a byte

PACKED = {
    "nibbles": (2, lambda p: torch.stack([p & 15, p >> 4], -1).flatten(1), lambda w: w - 8),
    "nibbles of halves": (2, lambda p: torch.cat([p & 15, p >> 4], 1), lambda w: w - 8),
    "signed nibbles": (
        2,
        lambda p: torch.stack([(p.view(torch.int8) << 4) >> 4, p.view(torch.int8) >> 4], -1).flatten(1),
        lambda w: w,
    ),
    "two bits": (4, lambda p: torch.stack([(p >> n) & 3 for n in (0, 2, 4, 6)], -1).flatten(1), lambda w: w - 1.5),
}


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
@pytest.mark.parametrize("columns, summed", [(48, 64), (80, 1024), (33, 200), (16, 4096)])
@pytest.mark.parametrize("name", PACKED)
def test_packed_weights(name, columns, summed, rows):
    count = PACKED[name][0]
    p = integers(columns, summed // count).view(torch.uint8)
    x, s = floats(BF16, rows, summed), (torch.rand(columns) / 16).to(BF16)
    p[0] = torch.arange(summed // count).to(torch.uint8)
    check_packed(name, [x, p, s])


def check_packed(name, inputs):
    _, unpacked, zero = PACKED[name]
    found, launches = compiled(lambda x, p, s: F.linear(x, zero(unpacked(p).to(BF16))) * s, inputs, form="")
    assert len(inputs[0]) > 1 or launches == 1
    wide = zero(unpacked(inputs[1]).to(BF16).double())
    wanted = F.linear(inputs[0].double(), wide) * inputs[2].double()
    summed = F.linear(inputs[0].double().abs(), wide.abs()) * inputs[2].double()
    error = (found.double() - wanted).abs()  # of two roundings: of a call, and of what is scaled
    assert (error <= 2 * EPS[BF16] * wanted.abs() + 2.0**-20 * summed).all()


def test_packed_weights_with_scales_of_groups():
    def function(x, p, s):
        w = torch.stack([p & 15, p >> 4], -1).reshape(p.shape[0], -1, 32).to(BF16) - 8
        return F.linear(x, (w * s[:, :, None]).flatten(1))

    p, s = integers(80, 128).view(torch.uint8), (torch.rand(80, 8) / 16).to(BF16)
    x = floats(BF16, 1, 256)
    found, launches = compiled(function, [x, p, s], form="")
    w = torch.stack([p & 15, p >> 4], -1).reshape(80, -1, 32).double() - 8
    wide = (w * s.double()[:, :, None]).flatten(1)
    assert launches == 1
    close(found, x.double() @ wide.t(), BF16, x.double().abs() @ wide.abs().t())


# What is chosen, and machine code


def remarks(function, *inputs):
    options = {"on_error": "raise", "target": "interpret", "pipeline": ",".join(DEFAULT)}
    told = bascule.explain(function, *inputs, options=options)
    return [line.strip() for line in str(told).splitlines() if ".default (" in line]


def test_few_rows_are_widened_inside_and_many_once():
    function = WEIGHTS["scale of the result"]
    (few,) = remarks(function, *weight_only(64, 256, 256))
    assert "expanded: inside, of inside" in few
    assert "a call" in few


def test_a_product_that_nothing_follows_stays_a_call():
    inputs = fp8(256, 2048, 256, rowwise=False)
    (told,) = remarks(lambda *given: scaled(*given, fast=True), *inputs)
    assert "of few bits stays a call: it takes about" in told or "expanded" in told


@pytest.fixture
def kernels(monkeypatch):
    """Those that would run."""
    found = []
    monkeypatch.setattr(plans, "run_kernel", lambda kernel, arguments: found.append(kernel))
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["inside", "once"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_what_is_expanded_runs_on_tensor_cores(name, form, layout, kernels):
    compiled(WEIGHTS[name], list(LAYOUTS[layout](*weight_only(70, 160, 90))), form)
    assert ["tt.dot" in kernel.ttir for kernel in kernels] == ([True] if form == "inside" else [False, True])


CODE = {
    "floats": (lambda *given: F.relu(scaled(*given)), lambda: fp8(256, 512, 512), "f32.e4m3.e4m3"),
    "fast": (lambda *given: F.relu(scaled(*given, fast=True)), lambda: fp8(2048, 512, 2304), "f32.e4m3.e4m3"),
    "integers": (torch._int_mm, lambda: [integers(2048, 512), by_columns(integers(512, 2304))], "s32.s8.s8"),
    "weights": (WEIGHTS["scale of the weight"], lambda: weight_only(2048, 512, 2304), "f32.bf16.bf16"),
    "few rows": (WEIGHTS["scale of the result"], lambda: weight_only(8, 512, 2304), "f32.bf16.bf16"),
}


@pytest.mark.parametrize("name", CODE)
def test_tensor_cores_of_sm_90_without_spills(name, kernels):
    function, inputs, instruction = CODE[name]
    compiled(function, inputs())
    (kernel,) = kernels
    ptx = compile_kernel(kernel, 90).asm["ptx"]
    assert re.search(rf"wgmma\.mma_async\.sync\.aligned\.\w+\.{re.escape(instruction)}", ptx)
    assert "0 bytes spill stores, 0 bytes spill loads" in ptxas.log(ptx, 90)
