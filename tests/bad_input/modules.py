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


def circle(count: int) -> str:
    """Graphs that each call the next, the last one the first; three lines each."""
    type_ = "(tensor<4xf32>) -> tensor<4xf32>"
    return "".join(
        f"func.func @f{n}(%x: tensor<4xf32>) -> tensor<4xf32> attributes {{bascule.graph}} {{\n"
        f"%0 = call @f{(n + 1) % count}(%x) : {type_}\nreturn %0 : tensor<4xf32> }}\n"
        for n in range(count)
    )


def buffers(first: str, second: str) -> str:
    """Two operations on memory."""
    return f"func.func @main(%m: memref<4xf32>) attributes {{bascule.graph}} {{\n{first}\n{second}\nreturn\n}}\n"


def view(index: str) -> str:
    """A view of four elements by that index."""
    attributes = f"{{map = affine_map<(d0) -> ({index})>, shape = affine_map<() -> (4)>}}"
    body = f'%0 = "bascule.view"(%x) {attributes} : (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>'
    return f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {{bascule.graph}} {{\n  {body}\n}}\n"


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
        "'mod' by zero",
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
    "an operator that PyTorch has not": (calling("aten.nothing.default", 0), 1, "aten.nothing"),
    "an operand that the call has not": (calling("aten.relu.default", 7), 1, "has operand 7 of 1"),
    "a graph that calls itself": (
        edited("return %0", "%1 = call @main(%0) : (tensor<4xf32>) -> tensor<4xf32>\n  return %1"),
        8,
        "main",
    ),
    "graphs that call each other": (
        edited("return %0", "%1 = call @f(%0) : (tensor<4xf32>) -> tensor<4xf32>\n  return %1")
        + edited("@main", "@f").replace(
            "return %0", "%1 = call @main(%0) : (tensor<4xf32>) -> tensor<4xf32>\n  return %1"
        ),
        18,
        "@main -> @f -> @main",
    ),
    "10,000 graphs, the last of which calls the first": (circle(10_000), 30_000 - 1, "a function calls itself"),
    "an index of memory out of range": (
        buffers("%c = arith.constant -1 : index", "%e = memref.load %m[%c] : memref<4xf32>"),
        3,
        "the index -1",
    ),
    "an affine index out of range": (buffers("", "%e = affine.load %m[4] : memref<4xf32>"), 3, "the index 4"),
    "an affine store out of range": (
        buffers("%e = arith.constant 1.0 : f32", "affine.store %e, %m[2 + 2] : memref<4xf32>"),
        3,
        "the index 4",
    ),
    "a slice out of range": (
        edited("  return", "  %z = tensor.extract_slice %x[2] [3] [1] : tensor<4xf32> to tensor<3xf32>\n  return"),
        8,
        "out-of-bounds",
    ),
    "a slice of constants out of range": (
        edited(
            "  return",
            "  %c = arith.constant 2 : index\n"
            "  %z = tensor.extract_slice %x[%c] [3] [1] : tensor<4xf32> to tensor<3xf32>\n  return",
        ),
        9,
        "takes 2 to 4",
    ),
    "a view out of range": (view("d0 + 1"), 2, "has index 4 of dimension 0"),
    "a view that divides by nothing": (view("d0 floordiv 0"), 2, "'floordiv' by zero"),
    "a bound that divides by nothing": (edited("(4)>}", "(4 ceildiv 0)>}"), 2, "4 ceildiv 0"),
    "a size that divides by nothing": (
        "func.func @main(%s: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> "
        "{bascule.shape = affine_map<()[s0] -> (s0 mod 0)>}) attributes {bascule.graph} {\nreturn\n}\n",
        1,
        "'mod' by zero",
    ),
    "a layout of symbols that are not there": (
        RIGHT.replace(
            "%x: tensor<4xf32>", "%x: tensor<4xf32, #bascule.layout<affine_map<(d0)[s0] -> (d0 * s0)>>>"
        ).replace(
            "tensor.extract %x[%i] : tensor<4xf32>",
            "tensor.extract %x[%i] : tensor<4xf32, #bascule.layout<affine_map<(d0)[s0] -> (d0 * s0)>>>",
        ),
        1,
        "symbol",
    ),
    "an operator of the torch stage that PyTorch has not": (
        "func.func @main(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> attributes {bascule.graph} {\n"
        '  %0 = torch.operator "torch.aten.nothing"(%x) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>\n'
        "  return %0 : !torch.vtensor<[4],f32>\n}\n",
        2,
        "aten.nothing.default",
    ),
    "storages of another number": (
        edited("{bascule.graph}", "{bascule.graph, bascule.storages = array<i64: 0>}"),
        1,
        "has 1 numbers: 2 are needed",
    ),
    "storages that are no numbers": (
        edited("{bascule.graph}", '{bascule.graph, bascule.storages = "two"}'),
        1,
        "bascule.storages",
    ),
    "a result that is returned as what is not known": (
        edited("-> tensor<4xf32> attributes", '-> (tensor<4xf32> {bascule.returned_as = "a copy"}) attributes'),
        1,
        'is "a copy"',
    ),
    "a store in a compute": (
        edited(
            '    "bascule.yield"',
            '    "bascule.store"(%s, %x, %i) : (f32, tensor<4xf32>, index) -> ()\n    "bascule.yield"',
        ),
        6,
        "bascule.store",
    ),
    "ranges that are text": (edited("affine_map<() -> (4)>}", '"four"}'), 2, "ranges"),
    "no ranges": (edited(" {ranges = affine_map<() -> (4)>}", ""), 2, "ranges"),
    "ranges of a dimension": (edited("affine_map<() -> (4)>}", "affine_map<(d0) -> (d0)>}"), 2, "ranges"),
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
# They verify, and are refused before a pass.
NOT_REDUCED = {
    "an operand that the call has not",
    "a layout of symbols that are not there",
    "storages that are no numbers",
    "a result that is returned as what is not known",
}
