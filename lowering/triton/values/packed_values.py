"""Values as they lie in registers of 32 bits, several narrow ones in each: instructions that LLVM does not find, or must not see through."""

import re
import struct

from bascule.dialect.mlir import ir

from .builder import Builder, asm, element, like

AGAIN, AGAIN_WIDE = "mov.b32 $0, $1;", "mov.b64 $0, $1;"
WIDENED = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;"  # LLVM takes three instructions for two numbers
# A byte with 0x4b0000 above it is the f32 2**23 + byte. Conversions take four times as long.
BYTES = "{{ .reg .b32 x; xor.b32 x, $4, {flip}; {parts} }} // {signs} {less}"
BYTE = "prmt.b32 ${n}, x, 0x4b000000, 0x754{n}; sub.f32 ${n}, ${n}, {zero};"
SHIFTED = "shr.u32 $0, $1, {by}; and.b32 $0, $0, {mask:#010x}; // shifted {by}"
TOLD = re.compile(r"// (signed|unsigned|shifted) (-?\d+)$")
PACKED = (AGAIN, AGAIN_WIDE, WIDENED)  # what begins the texts of instructions that leave numbers as they are
MOST = 1 << 15  # what is subtracted from bytes in the same instruction, at most: the result is exact


def _instruction(b: Builder, text: str, constraints: str, x: ir.Value, to: ir.Type) -> ir.Value:
    attributes = asm(text, constraints, packed=32 // element(x.type).width)
    return b.value("tt.elementwise_inline_asm", like(x.type, to), [x], attributes)


def again(b: Builder, x: ir.Value, walk: int) -> ir.Value:
    """`x` as another value in each walk, so that nothing that is computed of it in one stays for the next; of numbers above 32 bits, `x`."""
    scalar = element(x.type)
    if scalar.width > 32:
        return x
    return _instruction(b, f"{AGAIN} // {walk}", "=f,f" if scalar == b.f32 else "=r,r", x, scalar)


def unknown(b: Builder, x: ir.Value) -> ir.Value:
    """`x`, an f32 or f64, of which LLVM knows nothing. What it knows to be NaN or too large for an integer is poison as one, and a store of that
    is dropped; the GPU's instruction saturates."""
    text, constraints = (AGAIN, "=f,f") if element(x.type) == b.f32 else (AGAIN_WIDE, "=d,d")
    return b.value("tt.elementwise_inline_asm", x.type, [x], asm(text, constraints))


def widened(b: Builder, x: ir.Value) -> ir.Value:
    """A tensor of bf16 as f32, in an instruction a number. Triton does not move conversions of layouts before it, as it does before
    `arith.extf`."""
    return _instruction(b, WIDENED, "=f,=f,r", x, b.f32)


def bytes_less(b: Builder, x: ir.Value, signed: bool, less: int = 0) -> ir.Value:
    """A tensor of integers of 8 bits as f32, `less` subtracted, in a little more than two instructions a number."""
    zero = (1 << 23) + (128 if signed else 0) + less
    (bits,) = struct.unpack("<I", struct.pack("<f", zero))
    parts = " ".join(BYTE.format(n=n, zero=f"0f{bits:08x}") for n in range(4))
    signs = "signed" if signed else "unsigned"
    text = BYTES.format(flip="0x80808080" if signed else "0", parts=parts, signs=signs, less=less)
    return _instruction(b, text, "=f,=f,=f,=f,r", x, b.f32)


def shifted(b: Builder, x: ir.Value, by: int) -> ir.Value:
    """A tensor of unsigned integers of 8 bits, shifted right: four in two instructions."""
    return _instruction(b, SHIFTED.format(by=by, mask=0x01010101 * (0xFF >> by)), "=r,r", x, b.i8)


def on_bytes(text: str) -> tuple[str, int] | None:
    """An instruction on bytes by its text: what it takes or does (signed, unsigned, shifted), and the number that it subtracts or shifts by.
    None for another one."""
    found = TOLD.search(text)
    return None if found is None else (found[1], int(found[2]))
