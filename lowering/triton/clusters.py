"""Programs of one cluster, which the GPU starts together: what each of them tells the others, through their shared memory.

In PTX, which Triton passes on: `barrier.cluster` orders what was written before it, `mapa` gives the address of another program's shared
memory. No memory has to be cleared for it and no launch waits for another; a grid is a multiple of its clusters, so that none is short.
"""

import re
from collections.abc import Sequence
from functools import cache

from bascule.dialect.mlir import ir

from .builder import Builder, element

MOST_PROGRAMS = 8  # that every GPU with clusters starts together
CAPABILITY = 90
TOLD = re.compile(r"// each of (\d+) programs tells the others: ([\d ]+) bits\n")
# That a program has begun, which is waited for before its shared memory is written to.
BEGUN = "barrier.cluster.arrive.relaxed.aligned; mov.b32 $0, $1;"


def begin(b: Builder) -> None:
    """To be emitted where a program begins, if it ever calls `tell`."""
    _assembly(b, BEGUN, [b.i32], [b.constant(b.i32, 0)])


def tell(b: Builder, values: Sequence[ir.Value], programs: int, first: bool) -> list[list[ir.Value]]:
    """Each of `values`, scalars, as each of the `programs` of a cluster has it, in their order. `first`: nothing was told before."""
    alike = [value in b.numbers for value in values]  # constants
    sent = [_bits(b, value) for value, same in zip(values, alike) if not same]
    widths = tuple(value.type.width for value in sent)
    results = [value.type for value in sent for _ in range(programs)]
    told = _assembly(b, _text(programs, widths, first), results, sent)
    parts = iter([told[start : start + programs] for start in range(0, len(told), programs)])
    return [
        [value] * programs if same else [_back(b, bits, value.type) for bits in next(parts)]
        for value, same in zip(values, alike)
    ]


def _bits(b: Builder, value: ir.Value) -> ir.Value:
    scalar = element(value.type)
    if isinstance(scalar, ir.FloatType):
        return b.convert("tt.bitcast", value, b.i32 if scalar.width == 32 else b.i64)
    return value if scalar.width >= 32 else b.convert("arith.extui", value, b.i32)


def _back(b: Builder, bits: ir.Value, type_: ir.Type) -> ir.Value:
    if isinstance(type_, ir.FloatType):
        return b.convert("tt.bitcast", bits, type_)
    return bits if type_ == bits.type else b.convert("arith.trunci", bits, type_)


def _assembly(b: Builder, text: str, results: Sequence[ir.Type], operands: Sequence[ir.Value]) -> list[ir.Value]:
    letters = [["r", "l"][value.width == 64] for value in [*results, *(operand.type for operand in operands)]]
    outputs = ["=&" + letter for letter in letters[: len(results)]]  # written before all operands are read
    attributes: dict[str, ir.Attribute] = {
        "asm_string": ir.StringAttr.get(text),
        "constraints": ir.StringAttr.get(",".join([*outputs, *letters[len(results) :]])),
        "packed_element": b.number(b.i32, 1),
        "pure": ir.BoolAttr.get(False),
    }
    return list(b.op("tt.elementwise_inline_asm", results, operands, attributes).results)


@cache
def _text(programs: int, widths: tuple[int, ...], first: bool) -> str:
    """Thread k writes to program k; 8 bytes a number."""
    lines = [
        f"// each of {programs} programs tells the others: {' '.join(map(str, widths))} bits",
        "{ .reg .b32 rank, thread, own, there; .reg .pred tells;",
        f".shared .align 8 .b64 told[{len(widths) * programs}];",
        "mov.u32 rank, %cluster_ctarank; mov.u32 thread, %tid.x; mov.u32 own, told;",
        f"setp.lt.u32 tells, thread, {programs};",
        "@tells mapa.shared::cluster.u32 there, own, thread;",
        "mad.lo.u32 there, rank, 8, there;",
    ]
    if first:
        lines.append("barrier.cluster.wait.aligned;")
    outputs = len(widths) * programs
    for number, width in enumerate(widths):
        place = f"there+{8 * programs * number}"
        lines.append(f"@tells st.shared::cluster.b{width} [{place}], ${outputs + number};")
    lines.append("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;")
    for number, width in enumerate(widths):
        for program in range(programs):
            slot = number * programs + program
            lines.append(f"ld.shared.b{width} ${slot}, [told+{8 * slot}];")
    return "\n".join([*lines, "}"])


def told_by(text: str) -> int | None:
    """The programs of a cluster that `text`, an instruction of `tell`, is run by together; None: it is another."""
    found = TOLD.match(text)
    return int(found[1]) if found else None
