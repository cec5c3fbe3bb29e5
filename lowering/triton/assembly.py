"""PTX that is changed before the assembler sees it: what the assembler gets wrong, and clusters, which Triton does not know of.

The former was seen on the ptxas of CUDA 12.8, which Triton 3.6 brings.
"""

import re
from typing import Any

from .clusters import in_clusters

# In a loop, ptxas -O1 and above lets go of the constant 3 in `add.s16x2 d, x, 3` and adds 0: gradients of a pooling were lost so.
_PACKED = re.compile(r"add\.[su]16x2\s+(%\w+), (%\w+), (%\w+);")
_APART = (
    "{{ .reg .b16 x<2>, y<2>; mov.b32 {{x0, x1}}, {1}; mov.b32 {{y0, y1}}, {2}; "
    "add.s16 x0, x0, y0; add.s16 x1, x1, y1; mov.b32 {0}, {{x0, x1}}; }}"
)


def without_packed_additions(ptx: str) -> str:
    """The same, with every addition of two pairs of 16-bit integers as two additions."""
    return _PACKED.sub(lambda found: _APART.format(*found.groups()), ptx)


def reassemble(compiled: Any, target: Any, options: dict[str, Any], cluster: int = 1) -> None:
    """Replaces what was assembled of `compiled`, Triton's compiled kernel, if its PTX holds what the assembler gets wrong, or its programs
    come in clusters of `cluster`."""
    from triton.compiler.compiler import make_backend

    ptx = in_clusters(without_packed_additions(compiled.asm["ptx"]), cluster)
    if ptx == compiled.asm["ptx"]:
        return
    backend = make_backend(target)
    cubin = backend.make_cubin(ptx, compiled.metadata._asdict(), backend.parse_options(dict(options)), target.arch)
    compiled.asm.update(ptx=ptx, cubin=cubin)
