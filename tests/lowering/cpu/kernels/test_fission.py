"""Points in phases: what is kept of each, in what order memory is accessed, and rows that are no multiple of a block."""

import pytest
from bascule.dialect.analysis.bodies.body_summary import decode
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.dialect.scheduling.cpu.loop_fission import phases
from bascule.dialect.scheduling.cpu.planner import Planner

from tests.lowering.cpu.harness import check, kernel, loop, runnable_widths

ROWS = (64, 65, 127, 130, 200)


def rows(kind: str, type_: str = "f32", less: str = "", result: str = "%s") -> str:
    """The reduction of each row of `%x`, `less` a number."""
    results = {"argmax": "i64"}.get(kind, type_)
    subtracted = f"%b = arith.subf %a, {less} : {type_}" if less else ""
    body = f"""%a = memref.load %x[%i, %k] : memref<SIZEx6x{type_}>
        {subtracted} "bascule.yield"({"%b" if less else "%a"}) : ({type_}) -> ()"""
    return loop("reduce", "%k", body, "6", results=f"{result} = ", attributes=f'kind = "{kind}"', types=results)


def written(value: str, type_: str = "f32", to: str = "%o") -> str:
    return f'"bascule.store"({value}, {to}, %i) : ({type_}, memref<SIZEx{type_}>, index) -> ()'


def each(text: str, to: str) -> str:
    """Stores `%d`, which `text` computes of the element `%a` of `%x`."""
    body = f"""%a = memref.load %x[%i, %k] : memref<SIZEx6xf32>
        {text}
        "bascule.store"(%d, {to}, %i, %k) : (f32, memref<SIZEx6xf32>, index, index) -> ()
        "bascule.yield"() : () -> ()"""
    return loop("foreach", "%k", body, "6")


X, RESULT, ALL = "%x: memref<SIZEx6xf32>", "%o: memref<SIZExf32>", "%p: memref<SIZEx6xf32>"
# Name -> arguments, the region, the phases.
CASES = {
    "a function after a sum": (f"{X}, {RESULT}", f"{rows('sum')} %e = math.exp %s : f32 {written('%e')}", 2),
    "a function between loops": (
        f"{X}, {ALL}",
        f"{rows('max')} %e = math.tanh %s : f32 {each('%d = arith.mulf %a, %e : f32', '%p')}",
        3,
    ),
    "functions of functions between loops": (
        f"{X}, {RESULT}, {ALL}",
        f"""{rows("max")} %e = math.tanh %s : f32 %g = math.exp %e : f32
        {rows("sum", less="%g", result="%t")}
        %u = math.exp %t : f32 {written("%u")} {each("%c = arith.addf %a, %u : f32 %d = arith.mulf %c, %e : f32", "%p")}""",
        5,
    ),
    "a number of 16 bits, one of 64, a boolean": (
        f"%x: memref<SIZEx6xbf16>, {RESULT}, %q: memref<SIZExi64>",
        f"""{rows("max", "bf16")} {rows("argmax", "bf16", result="%n")} %w = arith.extf %s : bf16 to f32 %zero = arith.constant 0.0 : f32
        %positive = arith.cmpf ogt, %w, %zero : f32 %e = math.exp %w : f32 %f = arith.sitofp %n : i64 to f32
        %g = arith.addf %e, %f : f32 %r = arith.select %positive, %g, %zero : f32 {written("%r")} {written("%n", "i64", "%q")}""",
        2,
    ),
    "a loop that reads what was stored before": (
        f"{X}, {RESULT}, {ALL}",
        f"{rows('sum')} %e = math.exp %s : f32 {written('%e')} "
        + each("%b = memref.load %o[%i] : memref<SIZExf32> %d = arith.addf %a, %b : f32", "%p"),
        3,
    ),
    "a store behind a loop that reads the place": (
        f"{X}, {RESULT}, {ALL}",
        f"{rows('sum')} %e = math.exp %s : f32 "
        + each(
            "%b = memref.load %o[%i] : memref<SIZExf32> %c = arith.addf %a, %b : f32 %d = arith.addf %c, %e : f32", "%p"
        )
        + written("%e"),
        3,
    ),
    "in place": (X, f"{rows('sum')} %e = math.tanh %s : f32 {each('%d = arith.addf %a, %e : f32', '%x')}", 3),
    "a function under a condition": (
        f"{X}, {RESULT}",
        f"""{rows("sum")} %zero = arith.constant 0.0 : f32 %positive = arith.cmpf ogt, %s, %zero : f32 %l = math.exp %s : f32
        %r = scf.if %positive -> (f32) {{ %m = math.log %s : f32 scf.yield %m : f32 }} else {{ scf.yield %l : f32 }} {written("%r")}""",
        3,
    ),
    "no loop before it": (
        f"{X}, {RESULT}, {ALL}",
        f"%b = memref.load %o[%i] : memref<SIZExf32> %e = math.exp %b : f32 {each('%d = arith.mulf %a, %e : f32', '%p')}",
        3,
    ),
}


def text(name: str, size: int) -> str:
    arguments, body, _ = CASES[name]
    return kernel(arguments, body, str(size), "%i").replace("SIZE", str(size))


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("size", ROWS)
@pytest.mark.parametrize("name", CASES)
def test_values(name, size, bits, monkeypatch):
    """With each row by itself, however cheap rows as lanes are."""
    own = Planner._cost
    monkeypatch.setattr(
        Planner,
        "_cost",
        lambda it, block, lane, *rest: 1e9 if lane in it.body.block.arguments else own(it, block, lane, *rest),
    )
    with context():
        module = ir.Module.parse(text(name, size))
        ScheduleKernels(vector_bits=bits).run(module)
        assert "fission = " in str(module)
    check(text(name, size), bits=bits)


@pytest.mark.parametrize("name", CASES)
def test_phases(name):
    with context():
        module = ir.Module.parse(text(name, 64))
        (function,) = functions(module)
        body = decode(kernel_op(function), list(function.regions[0].blocks[0].arguments))
        found = phases(body, body.block)
        assert len(found) == CASES[name][2]
        for number, phase in enumerate(found):  # loops are in even phases
            assert number % 2 == 0 or not any(node.blocks for node in phase.nodes)


@pytest.mark.parametrize(
    "body",
    [
        f"{rows('sum')} %e = math.sqrt %s : f32 {written('%e')}",  # an instruction
        f"%b = memref.load %o[%i] : memref<SIZExf32> {rows('sum')} {written('%s')}",
    ],
)
def test_nothing_that_takes_long(body):
    with context():
        module = ir.Module.parse(kernel(f"{X}, {RESULT}", body, "64", "%i").replace("SIZE", "64"))
        (function,) = functions(module)
        body = decode(kernel_op(function), list(function.regions[0].blocks[0].arguments))
        assert phases(body, body.block) == []
