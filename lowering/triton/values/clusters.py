"""Programs that share a tile of the domain: a thread block cluster, whose programs a GPU runs at the same time (PTX ISA, "Cluster of cooperative
thread arrays"). Each has its part of the loops, and what the parts were reduced to is exchanged through the programs' shared memory.

The size of the cluster is a directive of the kernel's PTX, so that it is launched as any other.
"""

import re
from collections.abc import Sequence

from .builder import Builder, asm
from .dependent_launch import NOTHING
from .reduction_kinds import Reduction, Values

# Every program is there before another writes to its memory: it tells so when it starts, and who is first to write waits.
ARRIVE = f"barrier.cluster.arrive.relaxed; {NOTHING}"
_TITLE = "// of {programs} programs\n"
_GATHERING = re.compile(_TITLE.format(programs=r"(\d+)"))


def arrive(b: Builder) -> None:
    """To be emitted where a program starts."""
    b.op("tt.elementwise_inline_asm", [b.i32], [], asm(ARRIVE, "=r", pure=False))


def gather(b: Builder, values: Values, programs: int, first: bool) -> list[Values]:
    """The scalars `values` of every program of the cluster, in the order of their numbers, the same in all of them. What a program read or
    wrote before is over for the others then. `first`: nothing was exchanged before."""
    own = [f"${len(values) * programs + k}" for k in range(len(values))]
    lines = [
        "{",
        f".shared .align 16 .b8 slots[{4 * programs * len(values)}];",
        ".reg .pred sends; .reg .b32 to, at;",
        *(["barrier.cluster.wait.acquire;"] if first else []),
        "mov.u32 to, %tid.x;",
        f"setp.lt.u32 sends, to, {programs};",  # a thread each
        "mov.u32 at, %cluster_ctarank;",
        f"mul.lo.u32 at, at, {4 * len(values)};",
        "{ .reg .b32 base; mov.u32 base, slots; add.u32 at, at, base; }",
        "@sends mapa.shared::cluster.u32 at, at, to;",
        *(f"@sends st.shared::cluster.b32 [at+{4 * k}], {value};" for k, value in enumerate(own)),
        "barrier.cluster.arrive.release;",
        "barrier.cluster.wait.acquire;",
        "mov.u32 at, slots;",
        *(f"ld.shared.b32 ${k}, [at+{4 * k}];" for k in range(len(values) * programs)),
        "}",
    ]
    types = [value.type for value in values]
    letters = ["f" if type_ == b.f32 else "r" for type_ in types]
    constraints = ["=" + letter for letter in letters * programs] + letters
    attributes = asm(_TITLE.format(programs=programs) + "\n".join(lines), ",".join(constraints), pure=False)
    results = list(b.op("tt.elementwise_inline_asm", types * programs, values, attributes).results)
    return [results[k : k + len(values)] for k in range(0, len(results), len(values))]


def combined(b: Builder, reduction: Reduction, states: Sequence[Values]) -> Values:
    """The states of a cluster's programs, a power of two of them, combined in a tree: all programs have the same bits."""
    if len(states) == 1:
        return states[0]
    pairs = zip(states[::2], states[1::2])
    return combined(b, reduction, [reduction.combine(b, x, y) for x, y in pairs])


def gathering(text: str) -> int | None:
    """The programs of a cluster whose values an instruction gathers, None if it is another."""
    found = _GATHERING.match(text)
    return int(found[1]) if found else None
