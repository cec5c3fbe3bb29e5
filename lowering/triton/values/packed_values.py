"""Values as they lie in registers of 32 bits, several narrow ones in each: instructions that LLVM does not find, or must not see through."""

from bascule.dialect.mlir import ir

from .builder import Builder, asm, element, like

AGAIN = "mov.b32 $0, $1;"
WIDENED = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;"  # LLVM takes three instructions for two numbers
# A byte with 0x4b0000 above it is the f32 2**23 + byte. Conversions take four times as long.
BYTES = "{{ .reg .b32 x; xor.b32 x, $4, {flip}; {parts} }}"
BYTE = "prmt.b32 ${n}, x, 0x4b000000, 0x754{n}; sub.f32 ${n}, ${n}, {zero};"
SIGNED, UNSIGNED = (
    BYTES.format(flip=flip, parts=" ".join(BYTE.format(n=n, zero=zero) for n in range(4)))
    for flip, zero in (("0x80808080", "0f4b000080"), ("0", "0f4b000000"))
)
PACKED = (AGAIN, WIDENED, SIGNED, UNSIGNED)  # what begins the texts of instructions that leave numbers as they are


def _instruction(b: Builder, text: str, constraints: str, x: ir.Value, to: ir.Type) -> ir.Value:
    attributes = asm(text, constraints, packed=32 // element(x.type).width)
    return b.value("tt.elementwise_inline_asm", like(x.type, to), [x], attributes)


def again(b: Builder, x: ir.Value, walk: int) -> ir.Value:
    """`x` as another value in each walk, so that nothing that is computed of it in one stays for the next; of numbers above 32 bits, `x`."""
    scalar = element(x.type)
    if scalar.width > 32:
        return x
    return _instruction(b, f"{AGAIN} // {walk}", "=f,f" if scalar == b.f32 else "=r,r", x, scalar)


def widened(b: Builder, x: ir.Value, signed: bool = True) -> ir.Value:
    """A tensor of bf16 as f32, in an instruction a number; of integers of 8 bits, in a little more than two. Triton does not move conversions
    of layouts before it, as it does before `arith.extf` and `arith.sitofp`."""
    if element(x.type) == b.i8:
        return _instruction(b, SIGNED if signed else UNSIGNED, "=f,=f,=f,=f,r", x, b.f32)
    return _instruction(b, WIDENED, "=f,=f,r", x, b.f32)
