"""A graph at the tensor or kernel stage in Graphviz's language DOT: what is launched or called as boxes, tensors as edges with their bytes.

Graphviz's program `dot` makes an SVG of it; its Python package runs that program too.
"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..dialect.analysis.memory.buffers import bytes_of, memref_type
from ..dialect.ir.functions import EXTERN, functions, graph_functions, kernel_op
from ..dialect.ir.locations import operators_of, source_of
from ..dialect.ir.regions import ops_in
from ..dialect.ir.shapes import shape_of
from ..dialect.mlir import ir
from ..reporting.module_summary import domain_of

COLORS = {"kernel": "#cfe8cf", "aten": "#f3d9b1", "op": "#d9e2f3", "end": "#eeeeee"}
STYLE = """\
  graph [fontname=monospace]
  node [shape=box, style="filled,rounded", fontname=monospace, fontsize=11]
  edge [color="#888888", fontname=monospace, fontsize=11]"""


@dataclass
class Box:
    kind: str  # a key of COLORS
    lines: list[str]
    reads: list[tuple["Box", str]] = field(default_factory=list)  # from where, and the bytes


def draw(module: ir.Module, title: str) -> str:
    """The only graph function of `module` in DOT."""
    with module.context:
        (graph,) = graph_functions(module)
        boxes = _boxes(module, graph)
    return "\n".join(_dot(boxes, title)) + "\n"


def svg_of(dot: str) -> bytes | None:
    """The SVG that `dot` makes of a graph in DOT; None where it is not installed. Raises `CalledProcessError`."""
    program = shutil.which("dot")
    if program is None:
        return None
    return subprocess.run([program, "-Tsvg"], input=dot.encode(), capture_output=True, check=True).stdout


def _boxes(module: ir.Module, graph: ir.Operation) -> list[Box]:
    by_name = {function.attributes["sym_name"].value: function for function in functions(module)}
    makers: dict[ir.Value, Box] = {}
    boxes = []
    block = graph.regions[0].blocks[0]
    for number, argument in enumerate(block.arguments):
        if isinstance(argument.type, ir.RankedTensorType):
            makers[argument] = Box("end", [f"input {number}", _type(argument)])
            boxes.append(makers[argument])
    for view in block.operations:
        op = view.operation
        operands = [value for value in op.operands if isinstance(value.type, ir.RankedTensorType)]
        captured = [value for value in _captured(op) if value in makers and value not in operands]
        if (
            op.name != "func.return"
            and not any(isinstance(r.type, ir.RankedTensorType) for r in op.results)
            and not operands
        ):
            continue
        box = _box(op, by_name)
        box.reads = [
            (makers[value], _bytes(value)) for value in dict.fromkeys([*operands, *captured]) if value in makers
        ]
        makers.update(dict.fromkeys(op.results, box))
        boxes.append(box)
    return boxes


def _box(op: ir.Operation, by_name: dict[str, ir.Operation]) -> Box:
    where = source_of(op.location) or ""
    if op.name == "func.return":
        return Box("end", ["outputs"])
    if op.name != "func.call":
        return Box("op", [op.name, ", ".join(operators_of(op.location)), where])
    name = op.attributes["callee"].value
    function = by_name[name]
    kernel = kernel_op(function)
    if kernel is not None:
        return Box("kernel", [name, domain_of(kernel), where])
    return Box("aten", [function.attributes[EXTERN].value, where])


def _captured(op: ir.Operation) -> Iterator[ir.Value]:
    """The tensors that the regions of `op` read."""
    used = (value for inner in ops_in(op)[1:] for value in inner.operands)
    yield from dict.fromkeys(value for value in used if isinstance(value.type, ir.RankedTensorType))


def _type(value: ir.Value) -> str:
    return str(value.type).split(", #")[0].removesuffix(">") + ">"


def _bytes(value: ir.Value) -> str:
    text = str(bytes_of(memref_type(value.type), shape_of(value)))
    if not text.isdigit():
        return f"{text} B"
    number = float(text)
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.4g} {unit}"
        number /= 1024
    return f"{number:.4g} GiB"


def _dot(boxes: list[Box], title: str) -> Iterator[str]:
    names = {id(box): f"box{number}" for number, box in enumerate(boxes)}
    yield f"digraph {_quoted(title)} {{"
    yield STYLE
    for box in boxes:
        label = _quoted("\n".join(filter(None, box.lines)))
        yield f'  {names[id(box)]} [label={label}, fillcolor="{COLORS[box.kind]}"]'
    for box in boxes:
        for source, size in box.reads:
            yield f"  {names[id(source)]} -> {names[id(box)]} [label={_quoted(size)}]"
    yield "}"


def _quoted(text: str) -> str:
    """A string of DOT, in which a label has lines that begin at the left."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return '"' + "".join(rf"{line}\l" for line in escaped.split("\n")) + '"' if "\n" in text else f'"{escaped}"'
