"""The functions of `lowering/cpu`: accuracy in units in the last place of f32 (f64), against f64, beside eager's own."""

import math
from io import BytesIO

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.lowering.cpu.functions.transcendental import SLEEF

from tests.lowering.cpu.harness import call, kernel, runnable_widths, scheduled_and_compiled

N = 1 << 16
# function -> torch's name and intervals measured
INTERVALS = {
    "exp": [(-104, 89), (-1, 1)], "exp2": [(-149, 128)], "expm1": [(-20, 88), (-1, 1)],
    "log": [(1e-30, 4)], "log2": [(1e-30, 4)], "log10": [(1e-30, 4)], "log1p": [(-0.99, 4)],
    "sin": [(-30, 30)], "cos": [(-30, 30)], "tan": [(-30, 30)],
    "asin": [(-1, 1)], "acos": [(-1, 1)], "atan": [(-30, 30)],
    "sinh": [(-80, 80)], "cosh": [(-80, 80)], "tanh": [(-10, 10), (-0.7, 0.7)],
    "asinh": [(-30, 30)], "acosh": [(1, 30)], "atanh": [(-0.999, 0.999)],
    "erf": [(-4.2, 4.2), (-1, 1), (-1e-3, 1e-3)], "erfc": [(-4, 9)],
}  # fmt: skip


def apply(name: str, type_: str, inputs: list[torch.Tensor], bits: int) -> torch.Tensor:
    """The math op `name` of `N` elements, compiled."""
    values = [f"%a{i}" for i in range(len(inputs))]
    shape = f"memref<{N}x{type_}>"
    loads = "\n".join(f"{v} = memref.load %x{i}[%i] : {shape}" for i, v in enumerate(values))
    body = f"""{loads}
        %r = {name} {", ".join(values)} : {type_}
        "bascule.store"(%r, %o, %i) : ({type_}, {shape}, index) -> ()"""
    arguments = ", ".join([*(f"%x{i}: {shape}" for i in range(len(inputs))), f"%o: {shape}"])
    out = torch.empty_like(inputs[0])
    with context():
        compiled = scheduled_and_compiled(ir.Module.parse(kernel(arguments, body, str(N), "%i")), bits)
        call(compiled.addresses["k"], [*inputs, out], 1)
    return out


def units(got: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error, in units in the last place of `got`'s type; where infinite, it must be so in both."""
    size = exact.to(got.dtype).abs()
    finite = torch.isfinite(size) & torch.isfinite(got)
    one = torch.nextafter(size, torch.full_like(size, torch.inf)).double() - size.double()
    assert torch.equal(got[~finite].double(), exact[~finite].to(got.dtype).double())
    return ((got.double() - exact).abs() / one)[finite].max().item()


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("name", INTERVALS)
def test_accuracy_in_f32(name: str, bits: int):
    for low, high in INTERVALS[name]:
        x = torch.linspace(low, high, N)
        exact = getattr(torch, name)(x.double())
        assert units(apply(f"math.{name}", "f32", [x], bits), exact) <= 2.0


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf"])
def test_accuracy_in_f64(name: str):
    x = torch.linspace(*INTERVALS[name][0], N, dtype=torch.float64)
    got = apply(f"math.{name}", "f64", [x], runnable_widths()[0])
    torch.testing.assert_close(got, getattr(torch, name)(x), rtol=1e-15, atol=0)


def test_two_operands():
    x, y = torch.rand(N) * 10, torch.randn(N) * 3
    bits = runnable_widths()[0]
    assert units(apply("math.powf", "f32", [x, y], bits), torch.pow(x.double(), y.double())) <= 2.0
    assert units(apply("math.atan2", "f32", [y, x], bits), torch.atan2(y.double(), x.double())) <= 2.0
    torch.testing.assert_close(apply("arith.remf", "f32", [x, y], bits), torch.fmod(x, y), rtol=0, atol=0)


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_remainders_of_quotients_that_are_no_numbers(element):
    """Every dividend by every divisor, from subnormals to the largest; eager's vectors give NaN there, its scalars what libm gives."""
    dtype, least, most = {"f32": (torch.float32, -149, 127), "f64": (torch.float64, -1074, 1023)}[element]
    values = torch.tensor([1.37 * 2.0**power for power in range(least, most + 1, 37)], dtype=dtype)
    x, y = (part.flatten().contiguous() for part in torch.meshgrid(torch.cat([values, -values]), values, indexing="ij"))
    times = -(-N // x.numel())
    x, y = x.repeat(times)[:N], y.repeat(times)[:N]
    wanted = torch.tensor([math.fmod(a, b) for a, b in zip(x.tolist(), y.tolist())], dtype=torch.float64)
    for bits in runnable_widths():
        got = apply("arith.remf", element, [x, y], bits)
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
@pytest.mark.parametrize("bits", runnable_widths())
def test_special_values(name: str, bits: int):
    special = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e30, -1e30, 1e-40, -1e-40]
    x = torch.tensor(special).repeat(N // len(special) + 1)[:N]
    got, want = apply(f"math.{name}", "f32", [x], bits), getattr(torch, name)(x)
    torch.testing.assert_close(got, want, rtol=1e-6, atol=0, equal_nan=True)
    assert torch.equal(torch.signbit(got[x == 0]), torch.signbit(want[x == 0]))


def test_the_table_names_functions_of_the_library():
    from bascule.lowering.cpu.jit.machine_code import torch_library

    for stem, accuracy in SLEEF.values():
        for lanes in ("f8", "d4"):
            assert hasattr(torch_library(), f"Sleef_{stem}{lanes}{accuracy}")


def test_functions_of_libm_where_there_is_no_avx():
    from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
    from bascule.lowering.cpu import lower_kernels
    from bascule.lowering.cpu.jit.machine_code import MachineCode
    from bascule.lowering.cpu.values.target import Target

    body = """%a = memref.load %x[%i] : memref<37xf32>
        %b = math.log %a : f32
        %c = math.atan2 %b, %a : f32
        "bascule.store"(%c, %o, %i) : (f32, memref<37xf32>, index) -> ()"""
    x, out = torch.rand(37) + 0.1, torch.zeros(37)
    with context():
        module = ir.Module.parse(kernel("%x: memref<37xf32>, %o: memref<37xf32>", body, "37", "%i"))
        ScheduleKernels(vector_bits=128).run(module)
        lowered, _, called = lower_kernels(module, Target(128, avx=False))
        assert called == ["logf", "atan2f"]
        bytecode = BytesIO()
        lowered.operation.write_bytecode(bytecode)
        code = MachineCode.of(bytecode.getvalue(), called)
        call(code.address("k"), [x, out], 1)
    torch.testing.assert_close(out, torch.atan2(x.log(), x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "function",
    [torch.relu, torch.nn.functional.relu6, lambda x: x.clamp(0.0, 6.0), lambda x: x.neg().clamp_max(0.0).neg()],
    ids=["relu", "relu6", "clamp", "clamp_max"],
)
def test_zeros_keep_their_signs_at_bounds_of_zero(function, dtype):
    x = torch.tensor([-0.0, 0.0, float("nan"), 1.0, -1.0, 9.0] * 16, dtype=dtype)
    want, got = function(x), torch.compile(function, backend="bascule", options={"on_error": "raise"})(x)
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(got.signbit()[~got.isnan()], want.signbit()[~got.isnan()])
