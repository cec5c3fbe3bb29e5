"""PTX that is changed before the assembler sees it: what the assembler gets wrong, and directives that Triton does not write.

PTX is Triton's to write, and another version may write it in another way: a change that does not come about is an error, since a kernel without
its cluster would wait for programs that are not there. The fault was seen on the ptxas of CUDA 12.8, which Triton 3.6 brings.
"""

import re
from itertools import pairwise
from typing import Any

from bascule.dialect.errors import CompilerError

# In a loop, ptxas -O1 and above lets go of the constant 3 in `add.s16x2 d, x, 3` and adds 0: gradients of a pooling were lost so.
_PACKED = re.compile(r"add\.[su]16x2\s+(%\w+), (%\w+), (%\w+);")
_ANY_PACKED = re.compile(r"\badd(\.\w+)*\.[su]16x2\b")
_APART = (
    "{{ .reg .b16 x<2>, y<2>; mov.b32 {{x0, x1}}, {1}; mov.b32 {{y0, y1}}, {2}; "
    "add.s16 x0, x0, y0; add.s16 x1, x1, y1; mov.b32 {0}, {{x0, x1}}; }}"
)


_WAIT = re.compile(r"\bwgmma\.wait_group\.sync\.aligned\s+0;")
_PRODUCT = re.compile(r"\bwgmma\.mma_async\b|^\s*[$\w]+:")  # or a label, to which others may jump
_LABEL = re.compile(r"^\s*[$\w]+:")
_SUMS = re.compile(r"\bwgmma\.mma_async[^{}]*\{([^{}]*)\}")  # the registers of sums
_ZERO = r"(?:0|0f00000000)"
_OR_ZERO = re.compile(rf"\bselp\.b32(\s+%r\d+), (?:(%r\d+), {_ZERO}|{_ZERO}, (%r\d+)), (%p\d+);")
_AGAIN = re.compile(r"^\s*@!?%p\d+ bra\s+(\$\w+);")  # the end of a loop
_ON = re.compile(r"^\s*bra\.uni\s+(\$\w+);")
_KERNEL = re.compile(r"^[^/\n]*\.entry\b", re.MULTILINE)
_THREADS = re.compile(r"^([ \t]*\.reqntid\b[^\n]*\n)", re.MULTILINE)  # of a kernel, among its directives


def without_packed_additions(ptx: str) -> str:
    """The same, with every addition of two pairs of 16-bit integers as two additions. Raises `CompilerError` where one is left."""
    changed = _PACKED.sub(lambda found: _APART.format(*found.groups()), ptx)
    if left := _ANY_PACKED.search(changed):
        raise CompilerError(
            f"PTX adds pairs of 16-bit integers in a form that is not known: '{_line_of(changed, left)}'"
        )
    return changed


def without_repeated_waits(ptx: str) -> str:
    """The same, where a wait for all products of tensor cores that follows another, with no product and no label between, is left out: between
    two of them ptxas sees sums defined while products are under way, and has each product of the kernel wait for the one before."""
    lines, waited = list[str](), False
    for line in ptx.split("\n"):
        is_wait = _WAIT.search(line) is not None
        if not (is_wait and waited):
            lines.append(line)
        waited = is_wait or (waited and _PRODUCT.search(line) is None)
    return "\n".join(lines)


def with_waits_behind_loops(ptx: str) -> str:
    """The same, where a loop leaves products of tensor cores under way, and goes on where all are waited for: waited for before it goes there.
    Where the loop is passed by sums are set to 0 on the way to that place; ptxas sees them defined while products are under way, and has each
    product of the kernel wait for the one before (its C7515)."""
    lines = ptx.split("\n")
    places = {line.partition(":")[0].strip(): number for number, line in enumerate(lines) if _LABEL.match(line)}
    ends = []
    for number, (again, on) in enumerate(pairwise(lines)):
        loop, after = _AGAIN.match(again), _ON.match(on)
        if loop is None or after is None or not {loop[1], after[1]} <= places.keys():
            continue
        first, exit_ = places[loop[1]], places[after[1]]
        if first < number < exit_ and any("wgmma.mma_async" in line for line in lines[first:number]):
            next_ = next((line for line in lines[exit_ + 1 :] if _PRODUCT.search(line) or _WAIT.search(line)), "")
            if _WAIT.search(next_):
                ends.append(number + 1)
    for number in reversed(ends):
        lines.insert(number, "\twgmma.wait_group.sync.aligned 0;")
    return "\n".join(lines)


def with_selections_of_floats(ptx: str) -> str:
    """The same, where a sum of tensor cores or 0 is selected as a float: ptxas drops the products, those in TF32 that stand in two places, for
    one that is selected as bits, and the sum is 0 (H200, 2026-11-27)."""
    sums = {name.strip() for found in _SUMS.finditer(ptx) for name in found[1].split(",")}

    def changed(found: re.Match) -> str:
        to, first, second, condition = found.groups()
        if (first or second) not in sums:
            return found[0]
        return f"selp.f32{to}, {first or '0f00000000'}, {second or '0f00000000'}, {condition};"

    return _OR_ZERO.sub(changed, ptx) if sums else ptx


def _line_of(text: str, found: re.Match) -> str:
    return text[text.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0].strip()


def _with_directive(ptx: str, directive: str) -> str:
    """A kernel's PTX, with one more directive. Raises `CompilerError` if it is not the PTX of one kernel that has the threads that it needs, or
    has such a directive already."""
    name = directive.split()[0]
    kernels, threads = len(_KERNEL.findall(ptx)), len(_THREADS.findall(ptx))
    if (kernels, threads) != (1, 1) or name in ptx:
        found = f"{kernels} kernels, {threads} lines of .reqntid" + (f" and {name}" if name in ptx else "")
        raise CompilerError(f"'{directive}' does not fit into PTX of {found}: the kernel would run without it")
    return _THREADS.sub(rf"\1{directive}\n", ptx)


def with_room(ptx: str, resident: int) -> str:
    """A kernel's PTX, with registers left for so many programs on a multiprocessor (0: as it comes)."""
    return _with_directive(ptx, f".minnctapersm {resident}") if resident else ptx


def in_clusters(ptx: str, programs: int) -> str:
    """A kernel's PTX, of which so many programs are a cluster."""
    return _with_directive(ptx, f".reqnctapercluster {programs}, 1, 1") if programs > 1 else ptx


def reassemble(compiled: Any, target: Any, options: dict[str, Any], resident: int = 0, cluster: int = 1) -> None:
    """Replaces what was assembled of `compiled`, Triton's compiled kernel, if its PTX holds what the assembler gets wrong or is slow at, room is
    to be left for `resident` programs, or `cluster` of them are one."""
    from triton.compiler.compiler import make_backend

    ptx = with_waits_behind_loops(without_repeated_waits(without_packed_additions(compiled.asm["ptx"])))
    ptx = in_clusters(with_room(with_selections_of_floats(ptx), resident), cluster)
    if ptx == compiled.asm["ptx"]:
        return
    backend = make_backend(target)
    cubin = backend.make_cubin(ptx, compiled.metadata._asdict(), backend.parse_options(dict(options)), target.arch)
    compiled.asm.update(ptx=ptx, cubin=cubin)
