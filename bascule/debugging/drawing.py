"""A graph at the tensor or kernel stage as SVG: what is launched or called as boxes, tensors as edges with their bytes.

Boxes stand in layers, each below all that it reads from (the first steps of Sugiyama's method: ranks by longest path, order within a rank
by the mean place of what is read).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from ..dialect.analysis.memory.buffers import bytes_of, memref_type
from ..dialect.ir.functions import EXTERN, functions, graph_functions, kernel_op
from ..dialect.ir.locations import operators_of, source_of
from ..dialect.ir.regions import ops_in
from ..dialect.ir.shapes import shape_of
from ..dialect.mlir import ir
from ..reporting.module_summary import domain_of

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 240, 58, 30, 70, 20
COLORS = {"kernel": "#cfe8cf", "aten": "#f3d9b1", "op": "#d9e2f3", "end": "#eeeeee"}
LONGEST = 36  # characters of a line in a box


@dataclass
class Box:
    kind: str  # a key of COLORS
    lines: list[str]
    reads: list[tuple["Box", str]] = field(default_factory=list)  # from where, and the bytes
    rank: int = 0
    x: float = 0.0


def draw(module: ir.Module, title: str) -> str:
    """The SVG text of the only graph function of `module`."""
    with module.context:
        (graph,) = graph_functions(module)
        boxes = _boxes(module, graph)
    _place(boxes)
    return "\n".join(_svg(boxes, title))


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


def _place(boxes: list[Box]) -> None:
    layers: dict[int, list[Box]] = {}
    for box in boxes:  # in order: what is read comes first
        box.rank = 1 + max((source.rank for source, _ in box.reads), default=-1)
        layers.setdefault(box.rank, []).append(box)
    for rank in sorted(layers):
        places = {id(box): sum(s.x for s, _ in box.reads) / max(len(box.reads), 1) for box in layers[rank]}
        for number, box in enumerate(sorted(layers[rank], key=lambda box: places[id(box)])):
            box.x = MARGIN + number * (WIDTH + GAP_X)


def _svg(boxes: list[Box], title: str) -> Iterator[str]:
    width = max((box.x for box in boxes), default=0) + WIDTH + MARGIN
    height = MARGIN + (max((box.rank for box in boxes), default=0) + 1) * (HEIGHT + GAP_Y)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="monospace" font-size="11">'
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
    for box in boxes:
        for source, size in box.reads:
            x0, y0, x1, y1 = source.x + WIDTH / 2, _top(source) + HEIGHT, box.x + WIDTH / 2, _top(box)
            middle = (y0 + y1) / 2
            yield f'<path d="M{x0:.0f},{y0:.0f} C{x0:.0f},{middle:.0f} {x1:.0f},{middle:.0f} {x1:.0f},{y1:.0f}" fill="none" stroke="#888"/>'
            yield f'<text x="{(x0 + x1) / 2:.0f}" y="{middle:.0f}" fill="#555">{escape(size)}</text>'
    for box in boxes:
        yield (
            f'<rect x="{box.x:.0f}" y="{_top(box):.0f}" width="{WIDTH}" height="{HEIGHT}" rx="4" '
            f'fill="{COLORS[box.kind]}" stroke="#444"/>'
        )
        for number, line in enumerate(filter(None, box.lines)):
            text = line if len(line) <= LONGEST else f"...{line[-LONGEST + 3 :]}"
            yield f'<text x="{box.x + 6:.0f}" y="{_top(box) + 16 + 15 * number:.0f}">{escape(text)}</text>'
    yield "</svg>"


def _top(box: Box) -> float:
    return MARGIN + box.rank * (HEIGHT + GAP_Y)
