"""Small IR as text, for tests of what looks at one kernel or one graph function: loops, reads and stores, and what is parsed of them."""

from collections.abc import Iterator

import pytest
from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import Body, decode
from bascule.dialect.analysis.bodies.body_tree import Node
from bascule.dialect.ir import ScheduleAttr, context
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.domains import Domain
from bascule.dialect.scheduling.gpu.machine import H200, CudaMachine

_parsed: list[ir.Module] = []  # of the test that runs: an op does not keep its module


@pytest.fixture(autouse=True)
def mlir() -> Iterator[ir.Context]:
    """A context of its own for each test of a module that imports this."""
    with context() as ctx, ir.Location.unknown():
        yield ctx
        _parsed.clear()


def parse(text: str) -> ir.Module:
    """The module of a text; it lives as long as the test."""
    _parsed.append(ir.Module.parse(text))
    return _parsed[-1]


# -- text ---------------------------------------------------------------------------------------------------------------


def ranges(sizes: str) -> str:
    """The attribute of a loop's sizes, "5, s0" for example."""
    symbols = ", ".join(name for name in ("s0", "s1", "s2") if name in sizes)
    return f"ranges = affine_map<(){f'[{symbols}]' if symbols else ''} -> ({sizes})>"


def _region(at: str, body: str) -> str:
    indices = ", ".join(f"{index.strip()}: index" for index in at.split(",") if index.strip())
    return f"({{\n^bb0({indices}):\n{body}\n}})"


def reduce(name: str, at: str, sizes: str, body: str, value: str, element: str = "f32", kind: str = "sum") -> str:
    """A reduction of `value`, which `body` computes at the indices `at`, into `name`."""
    region = _region(at, f'{body}\n"bascule.yield"({value}) : ({element}) -> ()')
    result = "i64" if kind.startswith("arg") else element
    return f'{name} = "bascule.reduce"() {region} {{kind = "{kind}", {ranges(sizes)}}} : () -> {result}'


def foreach(at: str, sizes: str, body: str) -> str:
    region = _region(at, f'{body}\n"bascule.yield"() : () -> ()')
    return f'"bascule.foreach"() {region} {{{ranges(sizes)}}} : () -> ()'


def compute(name: str, at: str, sizes: str, body: str, value: str, type_: str, attributes: str = "") -> str:
    """A tensor of `value`, which `body` computes at the indices `at`."""
    element = type_.rstrip(">").split("x")[-1].removeprefix("tensor<")
    region = _region(at, f'{body}\n"bascule.yield"({value}) : ({element}) -> ()')
    return f'{name} = "bascule.compute"() {region} {{{attributes}{ranges(sizes)}}} : () -> {type_}'


def load(name: str, buffer: str, at: str, type_: str) -> str:
    return f"{name} = memref.load {buffer}[{at}] : {type_}"


def extract(name: str, tensor: str, at: str, type_: str) -> str:
    return f"{name} = tensor.extract {tensor}[{at}] : {type_}"


def store(value: str, buffer: str, at: str, type_: str, element: str = "f32") -> str:
    indices = "".join(", index" for index in at.split(",") if index.strip())
    return f'"bascule.store"({value}, {buffer}{", " if indices else ""}{at}) : ({element}, {type_}{indices}) -> ()'


def product(x: str, y: str, z: str, at: str, sizes: str, summed: int, element: str = "bf16") -> ir.Operation:
    """A kernel: z[at] = the sum over k of x[..] * y[..]. `x`, `y`, `z`: their sizes and indices, "100x20 : %m, %k" for example."""
    (xs, xi), (ys, yi), (zs, zi) = (text.split(" : ") for text in (x, y, z))
    types = [f"memref<{sizes}x{element}>" for sizes in (xs, ys)]
    terms = [load("%a", "%x", xi, types[0]), load("%b", "%y", yi, types[1])]
    if element != "f32":
        terms += [f"%aw = arith.extf %a : {element} to f32", f"%bw = arith.extf %b : {element} to f32"]
    terms += ["%c = arith.mulf %aw, %bw : f32" if element != "f32" else "%c = arith.mulf %a, %b : f32"]
    total = reduce("%s", "%k", f"{summed}", "\n".join(terms), "%c")
    result = f"memref<{zs}xf32>"
    return kernel(f"%x: {types[0]}, %y: {types[1]}, %z: {result}", at, sizes, total, store("%s", "%z", zi, result))


# -- parsed -------------------------------------------------------------------------------------------------------------


def kernel(arguments: str, at: str, sizes: str, *body: str) -> ir.Operation:
    """A `bascule.kernel` over memory, of the domain `sizes`, whose function has `arguments`."""
    region = _region(at, "\n".join((*body, '"bascule.yield"() : () -> ()')))
    text = (
        f'func.func private @k({arguments}) {{\n"bascule.kernel"() {region} {{{ranges(sizes)}}} : () -> ()\nreturn\n}}'
    )
    (function,) = functions(parse(text))
    found = kernel_op(function)
    assert found is not None
    return found


def indexing_of(op: ir.Operation) -> Indexing:
    """That of the function which `op`, at its top level, is in."""
    return Indexing(symbols_of(op.parent), Simplifier())


def body_of(op: ir.Operation) -> Body:
    """The body of a kernel as the CPU's schedules have it, its values numbered; the function's arguments come first."""
    return decode(op, list(op.parent.regions[0].blocks[0].arguments))


def domain_of(op: ir.Operation, machine: CudaMachine = H200) -> Domain:
    return Domain.of(op, machine, indexing_of(op))


def loops_of(domain: Domain) -> list[Node]:
    """All loops inside, outer ones first."""
    return domain.body.loops


def schedule(op: ir.Operation, config: ir.DictAttr) -> ir.Operation:
    """The kernel with `config` as its schedule."""
    op.attributes["schedule"] = ScheduleAttr.get(config)
    return op


def graph(arguments: str, results: str, returned: str, *body: str) -> ir.Operation:
    """A graph function over tensors that returns the values `returned`, of the types `results`."""
    lines = "\n".join(body)
    text = f"func.func @main({arguments}) -> ({results}) attributes {{bascule.graph}} {{\n{lines}\nreturn {returned} : {results}\n}}"
    return functions(parse(text))[0]


def module_of(function: ir.Operation) -> ir.Module:
    """The module that was parsed with `function` in it."""
    return next(module for module in _parsed if function.parent == module.operation)


def top_ops(function: ir.Operation) -> list[ir.Operation]:
    return [view.operation for view in function.regions[0].blocks[0].operations]


# -- kernels that several tests schedule ---------------------------------------------------------------------------------


def copied(rows: int, columns: int, transposed: bool = False) -> ir.Operation:
    """y[i, j] = x[i, j], or y[j, i]."""
    x = f"memref<{rows}x{columns}xf32>"
    y, at = (f"memref<{columns}x{rows}xf32>", "%j, %i") if transposed else (x, "%i, %j")
    body = (load("%a", "%x", "%i, %j", x), store("%a", "%y", at, y))
    return kernel(f"%x: {x}, %y: {y}", "%i, %j", f"{rows}, {columns}", *body)


def row_sums(rows: int, length: int, kind: str = "sum") -> ir.Operation:
    """y[i] = the sum of x[i, k] over k."""
    x, y = f"memref<{rows}x{length}xf32>", f"memref<{rows}xf32>"
    total = reduce("%s", "%k", f"{length}", load("%a", "%x", "%i, %k", x), "%a", kind=kind)
    return kernel(f"%x: {x}, %y: {y}", "%i", f"{rows}", total, store("%s", "%y", "%i", y))


def column_sums(rows: int, columns: int) -> ir.Operation:
    """y[j] = the sum of x[k, j] over k."""
    x, y = f"memref<{rows}x{columns}xf32>", f"memref<{columns}xf32>"
    total = reduce("%s", "%k", f"{rows}", load("%a", "%x", "%k, %j", x), "%a")
    return kernel(f"%x: {x}, %y: {y}", "%j", f"{columns}", total, store("%s", "%y", "%j", y))


def scaled_rows(rows: int, length: int, element: str = "f32") -> ir.Operation:
    """y[i, k] = x[i, k] times the sum of x[i, :]: a row is read twice."""
    x = f"memref<{rows}x{length}x{element}>"
    total = reduce("%s", "%k", f"{length}", load("%a", "%x", "%i, %k", x), "%a", element)
    times = f"%b = arith.{'muli' if element.startswith('i') else 'mulf'} %a, %s : {element}"
    body = (load("%a", "%x", "%i, %k", x), times, store("%b", "%y", "%i, %k", x, element))
    return kernel(f"%x: {x}, %y: {x}", "%i", f"{rows}", total, foreach("%k", f"{length}", "\n".join(body)))
