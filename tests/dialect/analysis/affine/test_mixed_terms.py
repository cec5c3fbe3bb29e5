"""Random sums, products, quotients and remainders have the same numbers after MLIR simplified them, alone and applied to one another."""

from random import Random

import pytest
from bascule.dialect.analysis.affine.mixed_terms import mixes, simplified, swings, tree
from bascule.dialect.interpreter.maps import evaluate
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline

DIMS, SYMBOLS = 2, 2


def drawn(draw: Random, depth: int) -> str:
    """An expression of few operands, so that terms have some in common. What divides is positive where symbols are."""
    if depth == 0:
        return draw.choice(("d0", "d0", "d1", "s0", "1"))
    a = drawn(draw, depth - 1)
    kind = draw.choice(("+", "+", "-", "* s0", "* 2", "floordiv", "ceildiv", "mod"))
    if kind in ("+", "-"):
        return f"({a} {kind} {drawn(draw, depth - 1)})"
    return f"({a} {kind} {draw.choice(('s0', 's0', 's0 + 1', 's1', '2'))})" if kind.isalpha() else f"({a} {kind})"


def map_of(text: str) -> ir.AffineMap:
    dims, symbols = ", ".join(f"d{i}" for i in range(DIMS)), ", ".join(f"s{i}" for i in range(SYMBOLS))
    return ir.Attribute.parse(f"affine_map<({dims})[{symbols}] -> ({text})>").value


def applied(op: ir.Value, known: dict[ir.Value, int]) -> int:
    """The number that a chain of `affine.apply` gives."""
    if op in known:
        return known[op]
    owner = op.owner
    if owner.name == "arith.constant":
        return owner.attributes["value"].value
    assert owner.name == "affine.apply"
    map_, numbers = owner.attributes["map"].value, [applied(operand, known) for operand in owner.operands]
    return evaluate(map_.results[0], numbers[: map_.n_dims], numbers[map_.n_dims :])


POINTS = [([x, y], [m, n]) for x in (0, 3, 11, 29) for y in (0, 2, 7) for m in (2, 5) for n in (3, 4)]


@pytest.mark.parametrize("seed", range(6))
def test_of_expressions(seed):
    draw = Random(seed)
    with context():
        for _ in range(100):
            e = map_of(drawn(draw, 4)).results[0]
            found = simplified(e, DIMS, SYMBOLS)
            assert all(evaluate(found, *at) == evaluate(e, *at) for at in POINTS), f"{e} became {found}"


def term(draw: Random) -> str:
    """A multiple of a dim's quotient or remainder, of its product with a symbol, or of itself."""
    dim, factor = draw.choice(("d0", "d1")), draw.choice((1, 2, 3, 6, -1, -2))
    symbol, divisor = draw.choice(("s0", "s1")), draw.choice((2, 3, 4, 8))
    forms = "{d} floordiv {n}", "{d} mod {n}", "({d} floordiv 2) mod {n}", "({d} + 3) floordiv {n}", "{d} * {s}"
    inner = draw.choice((*forms, "({d} floordiv {n}) * {s}", "{d}")).format(d=dim, n=divisor, s=symbol)
    return f"({inner}) * {factor}"


@pytest.mark.parametrize("seed", range(6))
def test_what_mlir_is_never_done_with_is_known(seed):
    draw, unsettled = Random(seed), 0
    with context():
        for _ in range(600):
            e = map_of(" + ".join(term(draw) for _ in range(draw.randint(2, 7)))).results[0]
            forms = [e]
            for _ in range(6):
                forms.append(ir.AffineExpr.simplify_affine_expr(forms[-1], DIMS, SYMBOLS))
            unsettled += forms[-1] != forms[-2]
            assert forms[-1] == forms[-2] or swings(tree(e)) or mixes(tree(e)), f"{e}: {forms[-2]}, {forms[-1]}"
            assert swings(tree(e)) or mixes(tree(e)) or not swings(tree(forms[1])), f"{e} became {forms[1]}"
    assert unsettled > 20


@pytest.mark.parametrize("seed", range(6))
def test_of_maps_applied_to_one_another(seed):
    draw = Random(100 + seed)
    for _ in range(20):
        lines, names = [], ["%x", "%y"]
        for number in range(4):
            a, b = draw.choice(names), draw.choice(names)
            text = drawn(draw, 3)
            lines.append(f"%v{number} = affine.apply affine_map<(d0, d1)[s0, s1] -> ({text})>({a}, {b})[%m, %n]")
            names.append(f"%v{number}")
        source = "\n".join(lines)
        module = f"""func.func private @take(index)
        func.func @main(%m: index, %n: index, %lower: index, %upper: index, %step: index) {{
          scf.for %x = %lower to %upper step %step {{
            scf.for %y = %lower to %upper step %step {{
              {source}
              func.call @take(%v3) : (index) -> ()
            }}
          }}
          return
        }}"""
        with context():
            before, after = ir.Module.parse(module), ir.Module.parse(module)
            Pipeline.parse("canonicalize").run(after)
            assert all(taken(before, *at) == taken(after, *at) for at in POINTS), f"{source}\nbecame\n{after}"


def taken(module: ir.Module, dims: list[int], symbols: list[int]) -> int:
    """The number given to `take` where the loops are at `dims`."""
    block = module.body.operations[1].regions[0].blocks[0]
    known = dict(zip(block.arguments, symbols))
    for at in dims:
        (loop,) = [op for op in block.operations if op.operation.name == "scf.for"]
        block = loop.operation.regions[0].blocks[0]
        known[block.arguments[0]] = at
    (call,) = [op for op in block.operations if op.operation.name == "func.call"]
    return applied(call.operation.operands[0], known)
