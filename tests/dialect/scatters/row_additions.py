"""A graph that adds rows to a table, each to the row that a number from data names."""

from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import compute, graph, ranges

ROW = "%w = tensor.extract %i[%p] : tensor<{points}xi64>\n%r = arith.index_cast %w : i64 to index"
VALUE = "%v = tensor.extract %g[%p, %j] : tensor<{points}x{width}xf32>"
STORE = '"bascule.store"(%v, %d, %r, %j) {{mode = "add"}} : (f32, tensor<{rows}x{width}xf32>, index, index) -> ()'


def additions(
    points: int, rows: int, width: int, *, row: str = ROW, value: str = VALUE, store: str = STORE, start: str = "0.5"
) -> ir.Operation:
    """table[i[p], j] += g[p, j] of a table of `rows`, which begins as `start`: the graph function."""
    sizes = {"points": points, "rows": rows, "width": width}
    table = f"tensor<{rows}x{width}xf32>"
    begin = f"%z = arith.constant {start} : f32"
    init = compute("%t", "%a, %b", f"{rows}, {width}", begin, "%z", table)
    body = "\n".join(text.format(**sizes) for text in (row, value, store))
    scatter = f"""%s = "bascule.scatter"(%t) ({{
    ^bb0(%p: index, %j: index, %d: {table}):
      {body}
      "bascule.yield"() : () -> ()
    }}) {{{ranges(f"{points}, {width}")}}} : ({table}) -> {table}"""
    arguments = f"%i: tensor<{points}xi64>, %g: tensor<{points}x{width}xf32>"
    return graph(arguments, table, "%s", init, scatter)


def scatter_of(function: ir.Operation) -> ir.Operation:
    return next(op for op in ops_in(function) if op.name == "bascule.scatter")
