"""Kernels that may be started while what runs before them on their stream ends: the launcher asks the driver for it (programmatic dependent
launch, CUDA programming guide), and the kernel waits itself before it touches memory. Launched as ever, it finds nothing to wait for."""

from bascule.dialect.errors import CompilerError

from .builder import Builder, asm

SINCE = 90  # the compute capability that has the instruction
# Every program waits until all memory that was written before is visible; the number is there because the operation has a result.
NOTHING = "mov.b32 $0, 0;"
INSTRUCTION = "griddepcontrol"
WAIT = f"{INSTRUCTION}.wait; {NOTHING}"


def wait(b: Builder) -> None:
    """To be emitted before whatever reads or writes memory."""
    b.value("tt.elementwise_inline_asm", b.i32, [], asm(WAIT, "=r", pure=False))


def for_capability(ttir: str, capability: int) -> str:
    """A kernel as text for compute capability `capability`, which may be another than its schedule's."""
    if capability >= SINCE:
        return ttir
    earlier = ttir.replace(WAIT, NOTHING)
    if INSTRUCTION in earlier:
        raise CompilerError(f"'{INSTRUCTION}' is left in a kernel for sm_{capability}, which does not have it")
    return earlier


def waits(ttir: str) -> bool:
    """Whether a kernel, as text, is one that waits."""
    return WAIT in ttir
