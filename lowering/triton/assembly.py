"""PTX that is changed before the assembler sees it: what the assembler gets wrong, and a directive that Triton does not write.

The former was seen on the ptxas of CUDA 12.8, which Triton 3.6 brings.
"""

import re
from typing import Any

# In a loop, ptxas -O1 and above lets go of the constant 3 in `add.s16x2 d, x, 3` and adds 0: gradients of a pooling were lost so.
_PACKED = re.compile(r"add\.[su]16x2\s+(%\w+), (%\w+), (%\w+);")
_APART = (
    "{{ .reg .b16 x<2>, y<2>; mov.b32 {{x0, x1}}, {1}; mov.b32 {{y0, y1}}, {2}; "
    "add.s16 x0, x0, y0; add.s16 x1, x1, y1; mov.b32 {0}, {{x0, x1}}; }}"
)


_THREADS = re.compile(r"^(\.reqntid [^\n]*\n)", re.MULTILINE)  # of a kernel, among its directives


def without_packed_additions(ptx: str) -> str:
    """The same, with every addition of two pairs of 16-bit integers as two additions."""
    return _PACKED.sub(lambda found: _APART.format(*found.groups()), ptx)


def with_room(ptx: str, resident: int) -> str:
    """A kernel's PTX, with registers left for so many programs on a multiprocessor (0: as it comes)."""
    return _THREADS.sub(rf"\1.minnctapersm {resident}\n", ptx) if resident else ptx


def in_clusters(ptx: str, programs: int) -> str:
    """A kernel's PTX, of which so many programs are a cluster."""
    return _THREADS.sub(rf"\1.reqnctapercluster {programs}, 1, 1\n", ptx) if programs > 1 else ptx


def reassemble(compiled: Any, target: Any, options: dict[str, Any], resident: int = 0, cluster: int = 1) -> None:
    """Replaces what was assembled of `compiled`, Triton's compiled kernel, if its PTX holds what the assembler gets wrong, room is to be left
    for `resident` programs, or `cluster` of them are one."""
    from triton.compiler.compiler import make_backend

    ptx = in_clusters(with_room(without_packed_additions(compiled.asm["ptx"]), resident), cluster)
    if ptx == compiled.asm["ptx"]:
        return
    backend = make_backend(target)
    cubin = backend.make_cubin(ptx, compiled.metadata._asdict(), backend.parse_options(dict(options)), target.arch)
    compiled.asm.update(ptx=ptx, cubin=cubin)
