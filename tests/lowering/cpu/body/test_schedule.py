"""Schedules change how a kernel runs, never what it computes: any edit of one is either run rightly or refused."""

from dataclasses import replace
from itertools import count
from random import Random

import pytest
from bascule.dialect.errors import UserError
from bascule.dialect.interpreter.inputs import random_inputs
from bascule.dialect.ir import context
from bascule.dialect.ir.attributes import ScheduleAttr
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.dialect.scheduling.cpu.schedule_form import (
    KernelSchedule,
    LoopSchedule,
    Tasks,
    from_attribute,
    to_attribute,
)
from bascule.lowering.cpu import compile_kernels

from tests.lowering.cpu.harness import call, copies, interpreted, kernel, loop, same

TURNED = "memref<37x40xf32, affine_map<(d0, d1) -> (d0 + d1 * 37)>>"
READ = "%a = memref.load %x[%i, %j] : memref<37x40xf32>"
SUM_ROW = loop(
    "reduce",
    "%k",
    """%a = memref.load %x[%i, %k] : memref<37x40xf32>
       "bascule.yield"(%a) : (f32) -> ()""",
    "40",
    results="%s = ",
    attributes='kind = "sum"',
    types="f32",
)
MAX_ROW = SUM_ROW.replace('"sum"', '"max"').replace("%s", "%m")
SCAN = loop(
    "scan",
    "%j, %k",
    """%a = memref.load %x[%j, %k] : memref<37x40xf32>
       "bascule.yield"(%a) : (f32) -> ()""",
    "37, 40",
    results="%t = ",
    attributes='kind = "sum", dim = 0 : i64',
    types="tensor<37x40xf32>",
)
KERNELS = {
    "pointwise": kernel(
        "%x: memref<37x40xf32>, %o: memref<37x40xf32>",
        f'{READ}\n%b = math.exp %a : f32\n"bascule.store"(%b, %o, %i, %j) : (f32, memref<37x40xf32>, index, index) -> ()',
        "37, 40",
        "%i, %j",
    ),
    "transposed": kernel(
        f"%x: memref<37x40xf32>, %y: {TURNED}, %o: memref<37x40xf32>",
        f"""{READ}
        %b = memref.load %y[%i, %j] : {TURNED}
        %c = arith.addf %a, %b : f32
        "bascule.store"(%c, %o, %i, %j) : (f32, memref<37x40xf32>, index, index) -> ()""",
        "37, 40",
        "%i, %j",
    ),
    "rows": kernel(
        "%x: memref<37x40xf32>, %o: memref<37xf32>, %p: memref<37xf32>",
        f"""{SUM_ROW}
        {MAX_ROW}
        "bascule.store"(%s, %o, %i) : (f32, memref<37xf32>, index) -> ()
        "bascule.store"(%m, %p, %i) : (f32, memref<37xf32>, index) -> ()""",
        "37",
        "%i",
    ),
    "scatter": kernel(
        "%x: memref<37x40xf32>, %o: memref<10x40xf32>",
        f"""{READ}
        %p = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%i)
        "bascule.store"(%a, %o, %p, %j) {{mode = "add"}} : (f32, memref<10x40xf32>, index, index) -> ()""",
        "37, 40",
        "%i, %j",
    ),
    "diagonals": kernel(
        "%x: memref<37x40xf32>, %o: memref<80xf32>",
        f"""{READ}
        %p = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %j)
        "bascule.store"(%a, %o, %p) : (f32, memref<80xf32>, index) -> ()""",
        "37, 40",
        "%i, %j",
    ),
    "scan": kernel(
        "%x: memref<37x40xf32>, %o: memref<37x40xf32>",
        SCAN
        + loop(
            "foreach",
            "%j, %k",
            """%b = tensor.extract %t[%j, %k] : tensor<37x40xf32>
               "bascule.store"(%b, %o, %j, %k) : (f32, memref<37x40xf32>, index, index) -> ()
               "bascule.yield"() : () -> ()""",
            "37, 40",
        ),
        "",
    ),
    "group": kernel(
        "%x: memref<37x40xf32>, %o: memref<f32>, %p: memref<37x40xf32>, %q: memref<40xf32>",
        loop(
            "reduce",
            "%i, %j",
            f"""{READ}
            "bascule.yield"(%a) : (f32) -> ()""",
            "37, 40",
            results="%s = ",
            attributes='kind = "sum"',
            types="f32",
        )
        + """
        "bascule.store"(%s, %o) : (f32, memref<f32>) -> ()"""
        + loop(
            "foreach",
            "%i, %j",
            f"""{READ}
            %b = arith.mulf %a, %s : f32
            "bascule.store"(%b, %p, %i, %j) : (f32, memref<37x40xf32>, index, index) -> ()
            "bascule.yield"() : () -> ()""",
            "37, 40",
        )
        + loop(
            "foreach",
            "%i, %j",
            f"""{READ}
            "bascule.store"(%a, %q, %j) {{mode = "add"}} : (f32, memref<40xf32>, index) -> ()
            "bascule.yield"() : () -> ()""",
            "37, 40",
        ),
        "",
    ),
}


def edited(schedule: KernelSchedule, random: Random) -> KernelSchedule:
    """A schedule that differs in one to three of its choices."""
    loops = [schedule.domain, *schedule.loops]
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(loops))
        loops[at] = changed(loops[at], random)
    return KernelSchedule(loops[0], tuple(loops[1:]))


def changed(loop: LoopSchedule, random: Random) -> LoopSchedule:
    group = lambda: random.randrange(-1, max(1, len(loop.groups)))  # noqa: E731
    lanes = random.choice((2, 4, 16, 64))
    match random.randrange(8):
        case 0:
            vector = group()
            width = 1 if vector < 0 else lanes
            tasks = loop.tasks and replace(loop.tasks, blocked=vector, block=width * random.choice((1, 3)))
            return replace(loop, vector=vector, lanes=width, tasks=tasks)
        case 1:
            return replace(loop, groups=tuple((i,) for g in loop.groups for i in g))
        case 2:
            return replace(loop, groups=(tuple(i for g in loop.groups for i in g),))
        case 3:
            return replace(loop, joins=random.randrange(-1, 2), tasks=None)
        case 4:
            return replace(loop, tasks=None if loop.tasks else Tasks(loop.vector, lanes * loop.lanes, grain=3))
        case 5 if loop.tasks:
            serial = tuple(g for g in range(len(loop.groups)) if random.random() < 0.5)
            return replace(loop, tasks=replace(loop.tasks, serial=serial))
        case 6 if not loop.tasks:
            return replace(loop, prefetch=random.choice((0, 64, 100, 1 << 20, 1 << 21)))
        case _ if loop.tasks:
            tile, rows = random.choice((("scratch", 16), ("scratch", 32), ("registers", 4), ("registers", 16)))
            loop = replace(loop, lanes=rows) if tile == "registers" and loop.vector >= 0 else loop
            return replace(loop, tasks=replace(loop.tasks, across=group(), rows=rows, tile=tile, grain=5))
        case _:
            return replace(loop, lanes=lanes)


@pytest.mark.parametrize("name", KERNELS)
def test_any_schedule_is_run_rightly_or_refused(name: str):
    random, ran, refused = Random(name), 0, 0
    with context():
        module = ir.Module.parse(KERNELS[name])
        inputs = random_inputs(module, "k", seed=1)
        want = interpreted(module, inputs)
        op = next(kernel_op(f) for f in functions(module))
        ScheduleKernels().run(module)
        made = from_attribute(op)
        assert from_attribute(op) == made
        for _ in range(40):
            op.attributes["schedule"] = ScheduleAttr.get(to_attribute(edited(made, random)))
            try:
                compiled = compile_kernels(module)
            except UserError as error:
                assert error.location.startswith("-:")
                refused += 1
                continue
            ran += 1
            for threads in (1, 2):
                got = copies(inputs)
                call(compiled.addresses["k"], got, threads)
                same(got, want)
    assert ran > 2 and refused > 2


@pytest.mark.parametrize("name", KERNELS)
def test_registers_of_any_width(name: str):
    with context():
        module = ir.Module.parse(KERNELS[name])
        inputs = random_inputs(module, "k", seed=2)
        want = interpreted(module, inputs)
        for bits in (128, 256, 512):
            ScheduleKernels(vector_bits=bits).run(module)
            compiled, got = compile_kernels(module), copies(inputs)
            call(compiled.addresses["k"], got, 2)
            same(got, want)


def test_a_schedule_reads_as_it_was_written():
    loops = (
        LoopSchedule(((0, 1), (3,)), 1, 16, prefetch=4096),
        LoopSchedule(joins=0),
        LoopSchedule(((0,),), 0, 4, Tasks(0, 8, (), -1, 0, 9)),
    )
    schedule = KernelSchedule(LoopSchedule(((0,), (2,)), 1, 8, Tasks(1, 64, (), 0, 8, 100, "registers")), loops)
    with context():
        module = ir.Module.parse(KERNELS["pointwise"])
        op = next(kernel_op(f) for f in functions(module))
        op.attributes["schedule"] = ScheduleAttr.get(to_attribute(schedule))
        again = ir.Module.parse(str(module))
        assert from_attribute(next(kernel_op(f) for f in functions(again))) == schedule


def test_an_edited_kernel_does_not_take_the_old_schedule():
    """The kernel that the schedule was made for had no two points that store to one place; now it has."""
    with context():
        module = ir.Module.parse(KERNELS["pointwise"])
        ScheduleKernels().run(module)
        (store,) = [op for op in walk(module) if op.name == "bascule.store"]
        store.operands[3] = store.operands[2]
        with pytest.raises(UserError, match="which they are not in every address"):
            compile_kernels(module)
        op = next(kernel_op(f) for f in functions(module))
        tasks = Tasks(1, 64, (), grain=100)
        apart = KernelSchedule(LoopSchedule(((0,), (1,)), 1, 16, tasks), ())
        op.attributes["schedule"] = ScheduleAttr.get(to_attribute(apart))
        with pytest.raises(UserError, match="may store to one place"):
            compile_kernels(module)
        ScheduleKernels().run(module)
        compile_kernels(module)


def stacked(tensors: int) -> str:
    """A kernel whose rows come from one of `tensors` each, found by bisection."""
    names = count()

    def row(first: int, end: int) -> tuple[str, str]:
        name = f"%v{next(names)}"
        if end - first == 1:
            return f"{name} = memref.load %x{first}[%j] : memref<64xf32>", name
        half = (first + end) // 2
        (below, low), (above, high) = row(first, half), row(half, end)
        text = f"""{name}_k = arith.constant {half} : index
        {name}_c = arith.cmpi slt, %i, {name}_k : index
        {name} = scf.if {name}_c -> (f32) {{
          {below}
          scf.yield {low} : f32
        }} else {{
          {above}
          scf.yield {high} : f32
        }}"""
        return text, name

    text, value = row(0, tensors)
    sizes = f"{tensors}x64xf32"
    arguments = ", ".join(f"%x{i}: memref<64xf32>" for i in range(tensors))
    store = f'"bascule.store"({value}, %o, %i, %j) : (f32, memref<{sizes}>, index, index) -> ()'
    return kernel(f"{arguments}, %o: memref<{sizes}>", f"{text}\n{store}", f"{tensors}, 64", "%i, %j")


def test_lanes_that_take_one_branch_pay_for_one():
    """Else lanes would run across the tensors of a long stack: one scalar at a time, in a branch for each lane and tensor."""
    with context():
        module = ir.Module.parse(stacked(100))
        ScheduleKernels().run(module)
        (function,) = functions(module)
        domain = from_attribute(kernel_op(function)).domain
    assert domain.groups[domain.vector] == (1,)


def walk(module: ir.Module) -> list[ir.Operation]:
    found = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
