"""Modules that are no valid IR, or that a pass cannot take: each is an edit of one that is right, or is made."""

RIGHT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    %s = arith.addf %e, %e : f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
CALLED = "func.func private @f(tensor<4xf32>) -> tensor<4xf32> attributes {EXTERN}\n" + RIGHT.replace(
    "return %0", "%1 = call @f(%0) : (tensor<4xf32>) -> tensor<4xf32>\n  return %1"
)


def calling(operator: str, operand: int) -> str:
    """A call of an operator of ATen's with the operand of that number."""
    extern = f'bascule.extern = "{operator}", bascule.arguments = [#bascule.operand<{operand} : i64>]'
    return CALLED.replace("EXTERN", f"{extern}, bascule.results = array<i64: 0>")


def edited(old: str, new: str) -> str:
    assert old in RIGHT, old
    return RIGHT.replace(old, new, 1)


def nested(depth: int) -> str:
    """Conditions inside of each other."""
    inner = "scf.if %c {\n" * depth + "}\n" * depth
    return f"func.func @main() attributes {{bascule.graph}} {{\n%c = arith.constant true\n{inner}return\n}}\n"


def long(count: int, last: str) -> str:
    """A compute of `count` additions, one after the other, and `last`."""
    sums = "\n".join(f"%s{n + 1} = arith.addf %s{n}, %e : f32" for n in range(count))
    return edited("%s = arith.addf %e, %e : f32", f"%s0 = arith.addf %e, %e : f32\n{sums}\n{last}")


# name -> the text, the line that is at fault, what is told of it
MODULES: dict[str, tuple[str | bytes, int, str]] = {
    "cut in an operation": (RIGHT[: RIGHT.index("%e, %e")], 5, "expected"),
    "cut in a string": (RIGHT[: RIGHT.index("compute") + 3], 2, "expected"),
    "cut in a region": (RIGHT[: RIGHT.index("return")], 7, "expected"),
    "a bracket too many": (RIGHT + "}\n", 9, "expected"),
    "a value that is not there": (edited("%e, %e", "%e, %z"), 5, "undeclared SSA value"),
    "a value twice": (edited("%s = ", "%e = "), 5, "redefinition of SSA value '%e'"),
    "a value of another type": (edited(": f32\n", ": f64\n"), 5, "expects different type"),
    "a value before it is made": (
        edited("%e = tensor.extract %x[%i] : tensor<4xf32>\n", "").replace(
            '    "bascule.yield"', '    %e = tensor.extract %x[%i] : tensor<4xf32>\n    "bascule.yield"'
        ),
        4,
        "does not dominate this use",
    ),
    "a wrong result": (
        edited("() -> tensor<4xf32>\n  return %0 : tensor<4xf32>", "() -> f32\n  return %x : tensor<4xf32>"),
        2,
        "compute",
    ),
    "a return of another type": (
        edited("return %0 : tensor<4xf32>", "return %0, %0 : tensor<4xf32>, tensor<4xf32>"),
        8,
        "return",
    ),
    "a rank that is no rank": (edited("(4)>}", "(4, 4)>}"), 2, "bascule.compute"),
    "a size below zero": (edited("(4)>}", "(-4)>}"), 2, "bascule.compute"),
    "no body": (
        edited(
            '    %e = tensor.extract %x[%i] : tensor<4xf32>\n    %s = arith.addf %e, %e : f32\n    "bascule.yield"(%s) : (f32) -> ()\n',
            "",
        ),
        2,
        "expects its region to end with",
    ),
    "a yield of another type": (
        edited('    "bascule.yield"(%s) : (f32)', '    "bascule.yield"(%i) : (index)'),
        2,
        "yields index for elements of type f32",
    ),
    "an index out of range": (
        edited("%x[%i]", "%x[%c]").replace("    %e =", "    %c = arith.constant 4 : index\n    %e ="),
        5,
        "4",
    ),
    "a division by nothing": (
        edited("    %e =", "    %j = affine.apply affine_map<(d0) -> (d0 mod 0)>(%i)\n    %e ="),
        4,
        "ZeroDivisionError",
    ),
    "an unknown dialect": (
        edited("arith.addf %e, %e : f32", '"nowhere.op"(%e) : (f32) -> f32'),
        5,
        "unregistered dialect",
    ),
    "an unknown operation": (edited("arith.addf %e, %e : f32", '"bascule.nothing"(%e) : (f32) -> f32'), 5, "nothing"),
    "an unknown attribute": (
        edited("tensor<4xf32>)", "tensor<4xf32, #bascule.nothing<4>>)"),
        1,
        "expected dynamic attribute",
    ),
    "a layout of another rank": (
        edited("tensor<4xf32>)", "tensor<4xf32, #bascule.layout<affine_map<(d0, d1) -> (d0)>>>)"),
        1,
        "expects different type",
    ),
    "a name twice": (RIGHT + RIGHT, 10, "redefinition of symbol named 'main'"),
    "a callee that is not there": (
        edited("return %0", "%1 = call @f(%0) : (tensor<4xf32>) -> tensor<4xf32>\n  return %1"),
        8,
        "'f'",
    ),
    "a callee of another type": (
        CALLED.replace("EXTERN", "").replace("private @f(tensor<4xf32>)", "private @f(tensor<5xf32>)"),
        9,
        "operand type mismatch",
    ),
    "an operator that PyTorch has not": (calling("aten.nothing.default", 0), 9, "aten.nothing"),
    "an operand that the call has not": (calling("aten.relu.default", 7), 1, "has operand 7 of 1"),
    "a graph that calls itself": (
        edited("return %0", "%1 = call @main(%0) : (tensor<4xf32>) -> tensor<4xf32>\n  return %1"),
        8,
        "main",
    ),
    "a reduction of no kind": (
        edited(
            "%s = arith.addf %e, %e : f32",
            '%s = "bascule.reduce"() ({\n^bb0(%k: index):\n"bascule.yield"(%e) : (f32) -> ()\n'
            '}) {kind = "most", ranges = affine_map<() -> (4)>} : () -> f32',
        ),
        5,
        "most",
    ),
    "not text": (b"\xff\xfe\x00" + RIGHT.encode(), 0, "can't decode byte 0xff"),
    "cut bytecode": (b"ML\xefR\r", 0, "bytecode"),
    "bytecode of nothing": (b"ML\xefR" + bytes(range(60)), 0, "bytecode"),
    "a zero byte": (RIGHT.replace("addf", "ad\0df"), 5, "arith.ad"),
    "too large a number": (edited("(4)>}", "(99999999999999999999999)>}"), 7, "constant too large"),
    "too large a size": (RIGHT.replace("<4xf32>", "<99999999999999999999999xf32>"), 1, "invalid dimension"),
    "100,000 operations, the last wrong": (
        long(100_000, "%s = arith.addf %s100000, %i : f32"),
        100_006,
        "expects different type",
    ),
    "regions 10,000 deep": (nested(10_000), 402, "nested too deeply"),
    "brackets 100,000 deep": (
        edited("{bascule.graph}", "{bascule.graph, a = " + "[" * 100_000 + "]" * 100_000 + "}"),
        1,
        "nested too deeply",
    ),
    "an expression 100,000 deep": (edited("(4)>}", "(" * 100_000 + "4" + ")" * 100_000 + ">}"), 7, "nested too deeply"),
}
# MLIR's verifier takes them, for they are of its own operations: they fail where they are run.
RUN_ALONE = {
    "an index out of range",
    "a division by nothing",
    "an operator that PyTorch has not",
    "a graph that calls itself",
}
NOT_REDUCED = {*RUN_ALONE, "an operand that the call has not"}  # they verify
