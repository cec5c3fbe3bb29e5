"""8-bit floats on the CPU: every conversion bit for bit as PyTorch's."""

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir

from tests.lowering.cpu.harness import call, kernel, runnable_widths, scheduled_and_compiled

TYPES = {
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.float8_e4m3fnuz: "f8E4M3FNUZ",
    torch.float8_e5m2fnuz: "f8E5M2FNUZ",
}


@pytest.fixture(params=TYPES, ids=TYPES.values())
def dtype(request):
    return request.param


@pytest.fixture(params=runnable_widths())
def width(request):
    return request.param


def converted(x: torch.Tensor, op: str, types: tuple[str, str], to: torch.dtype, bits: int) -> torch.Tensor:
    """`x` through the op, compiled for vectors of `bits` bits."""
    have, want = (f"memref<{len(x)}x{type_}>" for type_ in types)
    body = f"""%a = memref.load %x[%i] : {have}
        %r = {op} %a : {types[0]} to {types[1]}
        "bascule.store"(%r, %o, %i) : ({types[1]}, {want}, index) -> ()"""
    out = torch.zeros(len(x), dtype=to)
    with context():
        module = ir.Module.parse(kernel(f"%x: {have}, %o: {want}", body, str(len(x)), "%i"))
        compiled = scheduled_and_compiled(module, bits)
        call(compiled.addresses["k"], [x, out], 1)
    return out


def narrow(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(256).to(torch.uint8).view(dtype).repeat(3)[:761]  # a rest that fills no vector


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[x.element_size()])


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    """Equal bits, of NaN too where there are but eight."""
    assert got.dtype == want.dtype
    if got.element_size() > 1:
        assert torch.equal(got.isnan(), want.isnan())
        got, want = got.nan_to_num(7.0, torch.inf, -torch.inf), want.nan_to_num(7.0, torch.inf, -torch.inf)
    assert torch.equal(bits(got), bits(want))


def hard_f32() -> torch.Tensor:
    """Numbers of every exponent, and for each 8-bit number what lies just beside it and just beside the middle to the next."""
    generator = torch.Generator().manual_seed(0)
    anything = torch.randint(-(2**31), 2**31, (1 << 20,), generator=generator, dtype=torch.int64).to(torch.int32)
    exact = torch.cat([narrow(dtype).float() for dtype in TYPES]).unique()
    exact = exact[exact.isfinite()].sort().values
    exact = torch.cat([exact, exact.new_tensor([464.0, 480.0, 61440.0, 65536.0, 248.0, 256.0, 1e-45, -1e-45])]).unique()
    middle = (exact[1:] + exact[:-1]) / 2
    places = bits(torch.cat([exact, middle]))
    near = torch.cat([places + k for k in (-2, -1, 0, 1, 2)])
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, -torch.nan, 0.0, -0.0])
    return torch.cat([torch.cat([anything, near]).view(torch.float32), special])


def test_to_f32(dtype, width):
    x = narrow(dtype)
    same(converted(x, "arith.extf", (TYPES[dtype], "f32"), torch.float32, width), x.float())


def test_from_f32(dtype, width):
    x = hard_f32()
    same(converted(x, "arith.truncf", ("f32", TYPES[dtype]), dtype, width), x.to(dtype))


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_all_16_bit_numbers(dtype, half):
    to = torch.compile(lambda x: x.to(dtype), backend="bascule", options={"on_error": "raise", "fallback": "error"})
    back = torch.compile(lambda x: x.to(half), backend="bascule", options={"on_error": "raise", "fallback": "error"})
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(half)
    same(to(x), x.to(dtype))
    same(back(narrow(dtype)), narrow(dtype).to(half))


def test_denormals_hold_where_the_processor_drops_them(dtype):
    back = torch.compile(lambda x: x.float(), backend="bascule", options={"on_error": "raise", "fallback": "error"})
    x, want = narrow(dtype), narrow(dtype).float()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot")
    try:
        got = back(x)
    finally:
        torch.set_flush_denormal(False)
    same(got, want)


def scaled(x, y, dtype):
    return (x.float() * 0.5 + y.t().float()).to(dtype), torch.cat([x.view(torch.uint8), y.view(torch.uint8)], 1)


def moved(x, y, dtype):
    """No arithmetic: bytes move."""
    index = torch.tensor([3, 0, 2])
    return x.t().contiguous(), torch.where(x.float() > 0, x, y), x.view(torch.uint8)[index].view(dtype)


def asked(x, y, dtype):
    return x.to(torch.bool), x.to(torch.int32), x.float().amax(1).to(dtype), (x.float() < y.float()).any()


@pytest.mark.parametrize("function", [scaled, moved, asked])
def test_graphs(dtype, function):
    torch.manual_seed(0)
    x, y = (torch.randn(37, 37) * 4).to(dtype), (torch.randn(37, 37) * 4).to(dtype)
    got = torch.compile(function, backend="bascule", options={"on_error": "raise", "fallback": "error"})(x, y, dtype)
    for a, b in zip(got, function(x, y, dtype)):
        same(a, b) if a.is_floating_point() else torch.testing.assert_close(a, b)
