"""Kernels of every shape compute what the interpreter computes: element types, sizes, layouts, vector widths, threads."""

import itertools

import pytest
import torch

from tests.lowering.cpu.harness import check, kernel, loop, runnable_widths

SIZES = (0, 1, 7, 16, 17, 1000)
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f32", "f64")


def stored(value: str, type_: str, out: str, indices: str, shape: str, mode: str = "") -> str:
    attribute = f' {{mode = "{mode}"}}' if mode else ""
    operands = f"{value}, {out}, {indices}" if indices else f"{value}, {out}"
    types = ", ".join([type_, f"memref<{shape}>", *["index"] * len([i for i in indices.split(",") if i])])
    return f'"bascule.store"({operands}){attribute} : ({types}) -> ()'


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("size", SIZES)
def test_pointwise_sizes(size: int, bits: int):
    shape = f"{size}xf32"
    body = f"""%a = memref.load %x[%i] : memref<{shape}>
        %b = memref.load %y[%i] : memref<{shape}>
        %c = arith.mulf %a, %b : f32
        %d = math.exp %c : f32
        {stored("%d", "f32", "%o", "%i", shape)}"""
    check(kernel(f"%x: memref<{shape}>, %y: memref<{shape}>, %o: memref<{shape}>", body, f"{size}", "%i"), bits=bits)


@pytest.mark.parametrize("type_", [*INTEGERS, *FLOATS])
def test_arithmetic_of_each_type(type_: str):
    ops = ("addf", "subf", "mulf", "divf") if type_ in FLOATS else ("addi", "subi", "muli", "xori", "minsi", "maxui")
    shape = f"37x{type_}"
    lines = [f"%a = memref.load %x[%i] : memref<{shape}>", f"%b = memref.load %y[%i] : memref<{shape}>"]
    last = "%a"
    for n, op in enumerate(ops):
        lines.append(f"%r{n} = arith.{op} {last}, %b : {type_}")
        last = f"%r{n}"
    lines.append(stored(last, type_, "%o", "%i", shape))
    text = kernel(f"%x: memref<{shape}>, %y: memref<{shape}>, %o: memref<{shape}>", "\n".join(lines), "37", "%i")
    check(text)


@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_narrow_floats_round_as_torch_does(narrow: str):
    dtype = torch.float16 if narrow == "f16" else torch.bfloat16
    body = f"""%a = memref.load %x[%i] : memref<1008xf32>
        %b = arith.truncf %a : f32 to {narrow}
        {stored("%b", narrow, "%o", "%i", f"1008x{narrow}")}
        %c = arith.extf %b : {narrow} to f32
        {stored("%c", "f32", "%p", "%i", "1008xf32")}"""
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 3.3e38, 65519.0])
    x = torch.cat([special, torch.randn(1000) * 10 ** torch.linspace(-8, 4, 1000)])
    inputs = [x, torch.zeros(1008, dtype=dtype), torch.zeros(1008)]
    check(
        kernel(f"%x: memref<1008xf32>, %o: memref<1008x{narrow}>, %p: memref<1008xf32>", body, "1008", "%i"),
        inputs=inputs,
    )


@pytest.mark.parametrize("size", [1, 33, 47, 225])
@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_narrow_floats_that_are_moved(narrow: str, size: int):
    """Where there is AVX512-BF16, LLVM ends the process at a bf16 of which it is to move a single one."""
    shape = f"{size}x{narrow}"
    moved = f"""%a = memref.load %x[%i] : memref<{shape}>
        {stored("%a", narrow, "%o", "%i", shape)}
        "bascule.yield"() : () -> ()"""
    chosen = f"""%a = memref.load %x[%i] : memref<{shape}>
        %b = memref.load %y[%i] : memref<{shape}>
        %e = arith.extf %a : {narrow} to f32
        %f = arith.extf %b : {narrow} to f32
        %less = arith.cmpf olt, %e, %f : f32
        %least = arith.select %less, %a, %b : {narrow}
        {stored("%least", narrow, "%p", "%i", shape)}
        "bascule.yield"() : () -> ()"""
    loops = [loop("foreach", "%i", body, str(size)) for body in (moved, chosen)]
    check(kernel(", ".join(f"%{name}: memref<{shape}>" for name in "xyop"), "\n".join(loops), ""))


@pytest.mark.parametrize("source,target", [*itertools.permutations(("f32", "f64", "i8", "i32", "i64"), 2)])
def test_conversions(source: str, target: str):
    float_in, float_out = source[0] == "f", target[0] == "f"
    width = lambda t: int(t[1:])  # noqa: E731
    if float_in and float_out:
        op = "arith.extf" if width(target) > width(source) else "arith.truncf"
    elif float_in or float_out:
        op = "arith.fptosi" if float_in else "arith.sitofp"
    else:
        op = "arith.extsi" if width(target) > width(source) else "arith.trunci"
    body = f"""%a = memref.load %x[%i] : memref<50x{source}>
        %b = {op} %a : {source} to {target}
        {stored("%b", target, "%o", "%i", f"50x{target}")}"""
    check(kernel(f"%x: memref<50x{source}>, %o: memref<50x{target}>", body, "50", "%i"))


def test_booleans_and_unsigned():
    body = f"""%a = memref.load %x[%i] : memref<45xui8>
        %b = builtin.unrealized_conversion_cast %a : ui8 to i8
        %m = memref.load %y[%i] : memref<45xi1>
        %three = arith.constant 3 : i8
        %c = arith.divui %b, %three : i8
        %d = arith.select %m, %c, %b : i8
        {stored("%d", "i8", "%o", "%i", "45xui8")}
        %e = arith.cmpi ult, %d, %three : i8
        {stored("%e", "i1", "%p", "%i", "45xi1")}"""
    check(kernel("%x: memref<45xui8>, %y: memref<45xi1>, %o: memref<45xui8>, %p: memref<45xi1>", body, "45", "%i"))


LAYOUTS = {
    "row-major": (24, 1),
    "transposed": (1, 40),
    "strided": (60, 2),
    "rows expanded": (0, 1),
    "columns expanded": (3, 0),
}


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, bits: int):
    rows, columns = LAYOUTS[layout]
    x = f"40x24xf32, affine_map<(d0, d1) -> (d0 * {rows} + d1 * {columns})>"
    body = f"""%a = memref.load %x[%i, %j] : memref<{x}>
        %b = arith.addf %a, %a : f32
        {stored("%b", "f32", "%o", "%i, %j", "40x24xf32")}"""
    inputs = [torch.randn(3000).as_strided((40, 24), (rows, columns)), torch.zeros(40, 24)]
    check(kernel(f"%x: memref<{x}>, %o: memref<40x24xf32>", body, "40, 24", "%i, %j"), bits=bits, inputs=inputs)


@pytest.mark.parametrize("type_", ["f32", "f64", "bf16", "i64", "i1"])
@pytest.mark.parametrize("rows,columns", [(64, 64), (33, 70), (100, 31), (16, 8), (9, 200)])
def test_transposed_tiles(rows: int, columns: int, type_: str):
    x = f"{rows}x{columns}x{type_}, affine_map<(d0, d1) -> (d0 + d1 * {rows})>"
    body = f"""%a = memref.load %x[%i, %j] : memref<{x}>
        {stored("%a", type_, "%o", "%i, %j", f"{rows}x{columns}x{type_}")}"""
    check(kernel(f"%x: memref<{x}>, %o: memref<{rows}x{columns}x{type_}>", body, f"{rows}, {columns}", "%i, %j"))


@pytest.mark.parametrize("size", [1, 5, 64, 77, 300])
def test_dynamic_sizes(size: int):
    dynamic = "?x{c}xf32, affine_map<(d0, d1)[s0] -> (d0 * {c} + d1)>"
    x, y = dynamic.format(c=24), "24x?xf32, affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>"
    body = f"""%a = memref.load %x[%i, %j] : memref<{x}>
        %b = memref.load %y[%j, %i] : memref<{y}>
        %c = arith.addf %a, %b : f32
        {stored("%c", "f32", "%o", "%i, %j", x)}"""
    tall, wide = (f"{{bascule.shape = affine_map<()[s0] -> ({sizes})>}}" for sizes in ("s0, 24", "24, s0"))
    arguments = f"%s0: index, %x: memref<{x}> {tall}, %y: memref<{y}> {wide}, %o: memref<{x}> {tall}"
    text = kernel(arguments, body, "s0, 24", "%i, %j", "[s0]")
    inputs = [size, torch.randn(size, 24), torch.randn(24, size), torch.zeros(size, 24)]
    check(text, inputs=inputs)


def test_guards_across_a_boundary():
    """A pad of a cat: lanes of one vector take different branches."""
    body = f"""%c3 = arith.constant 3 : index
        %c50 = arith.constant 50 : index
        %c20 = arith.constant 20 : index
        %zero = arith.constant 0.0 : f32
        %k = affine.apply affine_map<(d0) -> (d0 - 3)>(%j)
        %low = arith.cmpi sge, %j, %c3 : index
        %high = arith.cmpi slt, %k, %c50 : index
        %inside = arith.andi %low, %high : i1
        %v = scf.if %inside -> (f32) {{
          %first = arith.cmpi slt, %k, %c20 : index
          %w = scf.if %first -> (f32) {{
            %a = memref.load %x[%i, %k] : memref<9x20xf32>
            scf.yield %a : f32
          }} else {{
            %m = affine.apply affine_map<(d0) -> (d0 - 20)>(%k)
            %b = memref.load %y[%i, %m] : memref<9x30xf32>
            scf.yield %b : f32
          }}
          scf.yield %w : f32
        }} else {{
          scf.yield %zero : f32
        }}
        {stored("%v", "f32", "%o", "%i, %j", "9x57xf32")}"""
    for bits in runnable_widths():
        check(
            kernel("%x: memref<9x20xf32>, %y: memref<9x30xf32>, %o: memref<9x57xf32>", body, "9, 57", "%i, %j"),
            bits=bits,
        )


def test_guard_by_data():
    """Reads under a condition that depends on data, one of them at a place that all lanes share."""
    body = f"""%zero = arith.constant 0.0 : f32
        %a = memref.load %x[%i] : memref<100xf32>
        %p = arith.cmpf ogt, %a, %zero : f32
        %v = scf.if %p -> (f32) {{
          %c0 = arith.constant 0 : index
          %b = memref.load %y[%c0] : memref<1xf32>
          %c = memref.load %x[%i] : memref<100xf32>
          %d = arith.mulf %b, %c : f32
          scf.yield %d : f32
        }} else {{
          scf.yield %zero : f32
        }}
        {stored("%v", "f32", "%o", "%i", "100xf32")}"""
    check(kernel("%x: memref<100xf32>, %y: memref<1xf32>, %o: memref<100xf32>", body, "100", "%i"))


@pytest.mark.parametrize("type_", ["i64", "i8"])
def test_steps_as_long_as_data_says(type_: str):
    """Lanes end at different steps; a remainder by what is 0 in the lanes that have ended."""
    body = f"""%zero = arith.constant 0 : {type_}
        %a = memref.load %x[%i, %j] : memref<9x57x{type_}>
        %b = memref.load %y[%i, %j] : memref<9x57x{type_}>
        %d:2 = scf.while (%p = %a, %q = %b) : ({type_}, {type_}) -> ({type_}, {type_}) {{
          %more = arith.cmpi ne, %p, %zero : {type_}
          scf.condition(%more) %q, %p : {type_}, {type_}
        }} do {{
        ^bb0(%q: {type_}, %p: {type_}):
          %r = arith.remui %q, %p : {type_}
          scf.yield %r, %p : {type_}, {type_}
        }}
        {stored("%d#0", type_, "%o", "%i, %j", f"9x57x{type_}")}"""
    dtype = {"i64": torch.int64, "i8": torch.int8}[type_]
    x, y = (torch.randint(0, 100, (9, 57)).to(dtype) for _ in range(2))
    arguments = ", ".join(f"%{name}: memref<9x57x{type_}>" for name in "xyo")
    for bits in runnable_widths():
        check(kernel(arguments, body, "9, 57", "%i, %j"), bits=bits, inputs=[x, y, torch.zeros_like(x)])


@pytest.mark.parametrize("ranges", ["9, 57", "57, 9"])
def test_steps_inside_of_a_reduction(ranges: str):
    """The lanes are those of the reduction, or those of the rows; how long a row steps is one number for all of it."""
    rows, columns = ranges.split(", ")
    x = f"{rows}x{columns}xf32"
    body = f"""%limit = memref.load %y[%i] : memref<{rows}xf32>
        %s = "bascule.reduce"() ({{
        ^bb0(%k: index):
          %a = memref.load %x[%i, %k] : memref<{x}>
          %big = scf.while (%p = %a) : (f32) -> f32 {{
            %more = arith.cmpf olt, %p, %limit : f32
            scf.condition(%more) %p : f32
          }} do {{
          ^bb0(%p: f32):
            %b = memref.load %x[%i, %k] : memref<{x}>
            %q = arith.addf %p, %b : f32
            scf.yield %q : f32
          }}
          "bascule.yield"(%big) : (f32) -> ()
        }}) {{kind = "sum", ranges = affine_map<() -> ({columns})>}} : () -> f32
        {stored("%s", "f32", "%o", "%i", f"{rows}xf32")}"""
    text = kernel(f"%x: memref<{x}>, %y: memref<{rows}xf32>, %o: memref<{rows}xf32>", body, rows, "%i")
    inputs = [torch.rand(int(rows), int(columns)) + 0.1, torch.rand(int(rows)) * 9, torch.zeros(int(rows))]
    for bits in runnable_widths():
        check(text, bits=bits, inputs=inputs)


def test_gather_at_what_steps_lead_to():
    """The place depends on the indices by way of the values that the loop uses, none of which it carries."""
    body = f"""%zero = arith.constant 0 : i64
        %one = arith.constant 1 : i64
        %limit = memref.load %x[%i] : memref<100xi64>
        %n = scf.while (%k = %zero) : (i64) -> i64 {{
          %more = arith.cmpi slt, %k, %limit : i64
          scf.condition(%more) %k : i64
        }} do {{
        ^bb0(%k: i64):
          %next = arith.addi %k, %one : i64
          scf.yield %next : i64
        }}
        %p = arith.index_cast %n : i64 to index
        %v = memref.load %y[%p] : memref<20xf32>
        {stored("%v", "f32", "%o", "%i", "100xf32")}"""
    text = kernel("%x: memref<100xi64>, %y: memref<20xf32>, %o: memref<100xf32>", body, "100", "%i")
    check(text, inputs=[torch.randint(0, 20, (100,)), torch.randn(20), torch.zeros(100)])


@pytest.mark.parametrize("type_", ["f32", "bf16", "i8"])
def test_gather(type_: str):
    body = f"""%n = memref.load %index[%i] : memref<60xi64>
        %k = arith.index_cast %n : i64 to index
        %a = memref.load %x[%k, %j] : memref<9x33x{type_}>
        {stored("%a", type_, "%o", "%i, %j", f"60x33x{type_}")}"""
    text = kernel(
        f"%index: memref<60xi64>, %x: memref<9x33x{type_}>, %o: memref<60x33x{type_}>", body, "60, 33", "%i, %j"
    )
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "i8": torch.int8}[type_]
    x = (torch.randn(9, 33) * 50).to(dtype)
    check(text, inputs=[torch.randint(0, 9, (60,)), x, torch.zeros(60, 33, dtype=dtype)])


@pytest.mark.parametrize("mode", ["set", "add", "mul", "min", "max"])
@pytest.mark.parametrize("columns", [1, 33])
def test_scatter_where_points_meet(mode: str, columns: int):
    body = f"""%n = memref.load %index[%i] : memref<60xi64>
        %k = arith.index_cast %n : i64 to index
        %a = memref.load %x[%i, %j] : memref<60x{columns}xf32>
        {stored("%a", "f32", "%o", "%k, %j", f"9x{columns}xf32", mode)}"""
    text = kernel(
        f"%index: memref<60xi64>, %x: memref<60x{columns}xf32>, %o: memref<9x{columns}xf32>",
        body,
        f"60, {columns}",
        "%i, %j",
    )
    check(text, inputs=[torch.randint(0, 9, (60,)), torch.randn(60, columns), torch.randn(9, columns)])


def test_row_kept_in_scratch_memory():
    row = "33xf32"
    body = f"""{
        loop(
            "compute",
            "%k",
            f'''%a = memref.load %x[%i, %k] : memref<20x{row}>
          %e = math.exp %a : f32
          "bascule.yield"(%e) : (f32) -> ()''',
            "33",
            results="%t = ",
            types=f"tensor<{row}>",
        )
    }
        {
        loop(
            "reduce",
            "%k",
            f'''%b = tensor.extract %t[%k] : tensor<{row}>
          "bascule.yield"(%b) : (f32) -> ()''',
            "33",
            results="%s = ",
            attributes='kind = "sum"',
            types="f32",
        )
    }
        {
        loop(
            "foreach",
            "%k",
            f'''%c = tensor.extract %t[%k] : tensor<{row}>
          %d = arith.divf %c, %s : f32
          {stored("%d", "f32", "%o", "%i, %k", f"20x{row}")}
          "bascule.yield"() : () -> ()''',
            "33",
        )
    }"""
    check(kernel(f"%x: memref<20x{row}>, %o: memref<20x{row}>", body, "20", "%i"))


def test_scratch_memory_of_lanes():
    """The same along columns: lanes are points of the domain, so the scratch memory holds a vector an element."""
    body = f"""{
        loop(
            "compute",
            "%k",
            '''%a = memref.load %x[%k, %i] : memref<33x80xf32>
          %e = math.exp %a : f32
          "bascule.yield"(%e) : (f32) -> ()''',
            "33",
            results="%t = ",
            types="tensor<33xf32>",
        )
    }
        {
        loop(
            "reduce",
            "%k",
            '''%b = tensor.extract %t[%k] : tensor<33xf32>
          "bascule.yield"(%b) : (f32) -> ()''',
            "33",
            results="%s = ",
            attributes='kind = "sum"',
            types="f32",
        )
    }
        {
        loop(
            "foreach",
            "%k",
            f'''%c = tensor.extract %t[%k] : tensor<33xf32>
          %d = arith.divf %c, %s : f32
          {stored("%d", "f32", "%o", "%k, %i", "33x80xf32")}
          "bascule.yield"() : () -> ()''',
            "33",
        )
    }"""
    check(kernel("%x: memref<33x80xf32>, %o: memref<33x80xf32>", body, "80", "%i"))


def test_independent_loops_in_one_launch():
    loops = [
        loop("foreach", "%i", f'''%a = memref.load %x{n}[%i] : memref<{size}xf32>
          %b = arith.mulf %a, %a : f32
          {stored("%b", "f32", f"%o{n}", "%i", f"{size}xf32")}
          "bascule.yield"() : () -> ()''', str(size))
        for n, size in enumerate((5, 20000, 33000))
    ]  # fmt: skip
    arguments = ", ".join(f"%{v}{n}: memref<{s}xf32>" for n, s in enumerate((5, 20000, 33000)) for v in "xo")
    check(kernel(arguments, "\n".join(loops), ""))


def test_whole_tensor_normalised_in_one_launch():
    """A large reduction, scalars from it, and a loop that needs them: three segments."""
    n = 50000
    body = f"""{
        loop(
            "reduce",
            "%i",
            f'''%a = memref.load %x[%i] : memref<{n}xf32>
          "bascule.yield"(%a) : (f32) -> ()''',
            str(n),
            results="%m:3 = ",
            attributes='kind = "welford"',
            types="(f32, f32, f32)",
        )
    }
        %v = arith.divf %m#1, %m#2 : f32
        %s = math.sqrt %v : f32
        {stored("%s", "f32", "%p", "", "f32")}
        {
        loop(
            "foreach",
            "%i",
            f'''%c = memref.load %x[%i] : memref<{n}xf32>
          %d = arith.subf %c, %m#0 : f32
          %e = arith.divf %d, %s : f32
          {stored("%e", "f32", "%o", "%i", f"{n}xf32")}
          "bascule.yield"() : () -> ()''',
            str(n),
        )
    }"""
    check(kernel(f"%x: memref<{n}xf32>, %p: memref<f32>, %o: memref<{n}xf32>", body, ""))


def test_equal_loops_of_one_launch_share_their_code():
    """Five loops alike but for their buffers, in an order that no stride describes, and a sixth of its own."""
    n, order = 5000, [3, 0, 4, 1, 2]
    loops = [
        loop("foreach", "%i", f'''%a = memref.load %x{k}[%i] : memref<{n}xf32>
          %b = memref.load %y{k}[%i] : memref<{n}xf32>
          %c = arith.{op} %a, %b : f32
          {stored("%c", "f32", f"%x{k}", "%i", f"{n}xf32")}
          "bascule.yield"() : () -> ()''', str(n))
        for k, op in [*((k, "subf") for k in order), (5, "mulf")]
    ]  # fmt: skip
    arguments = ", ".join(f"%{v}{k}: memref<{n}xf32>" for v in "xy" for k in range(6))
    check(kernel(arguments, "\n".join(loops), ""))


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("type_", ["f32", "bf16", "i64", "i1"])
@pytest.mark.parametrize("columns", [7, 64, 333])
def test_lanes_that_run_backwards(type_: str, columns: int, bits: int):
    body = f"""%b = affine.apply affine_map<(d0) -> ({columns - 1} - d0)>(%j)
        %a = memref.load %x[%i, %b] : memref<30x{columns}x{type_}>
        {stored("%a", type_, "%o", "%i, %j", f"30x{columns}x{type_}")}"""
    arguments = f"%x: memref<30x{columns}x{type_}>, %o: memref<30x{columns}x{type_}>"
    check(kernel(arguments, body, f"30, {columns}", "%i, %j"), bits=bits)


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("by", [8, 12, 32])
def test_a_quotient_meets_its_remainder(by: int, bits: int):
    """Read as one index, and stored as one; where the steps do not fit, or the divisors differ, it stays two."""
    text = kernel(
        f"%x: memref<30x20x{by}xf32>, %y: memref<30x{by}x20xf32>, %z: memref<30x{20 * by}x5xf32>, %o: memref<30x20x{by}xf32>",
        f"""%q = affine.apply affine_map<(d0) -> (d0 floordiv {by})>(%j)
        %r = affine.apply affine_map<(d0) -> (d0 mod {by})>(%j)
        %s = affine.apply affine_map<(d0) -> (d0 mod 5)>(%j)
        %a = memref.load %x[%i, %q, %r] : memref<30x20x{by}xf32>
        %b = memref.load %y[%i, %r, %q] : memref<30x{by}x20xf32>
        %c = memref.load %z[%i, %q, %s] : memref<30x{20 * by}x5xf32>
        %d = arith.mulf %a, %b : f32
        %e = arith.addf %d, %c : f32
        "bascule.store"(%e, %o, %i, %q, %r) : (f32, memref<30x20x{by}xf32>, index, index, index) -> ()""",
        f"30, {20 * by}",
        "%i, %j",
    )
    check(text, bits=bits)


@pytest.mark.parametrize("bits", runnable_widths())
@pytest.mark.parametrize("type_", ["f32", "bf16", "i1"])
@pytest.mark.parametrize(
    "index", ["d0 floordiv 2", "d0 floordiv 4", "(d0 + 1) floordiv 2", "d0 floordiv 3", "(d0 floordiv 2) * 3"]
)
@pytest.mark.parametrize("columns", [11, 128, 250])
def test_neighbours_that_read_one_element(index: str, columns: int, type_: str, bits: int):
    body = f"""%q = affine.apply affine_map<(d0) -> ({index})>(%j)
        %p = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%i)
        %a = memref.load %x[%p, %q] : memref<15x400x{type_}>
        {stored("%a", type_, "%o", "%i, %j", f"30x{columns}x{type_}")}"""
    text = kernel(f"%x: memref<15x400x{type_}>, %o: memref<30x{columns}x{type_}>", body, f"30, {columns}", "%i, %j")
    check(text, bits=bits)
