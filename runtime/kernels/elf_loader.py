"""Object code that LLVM made, brought into this process: the sections of ELF files are placed in memory and their relocations applied.

What a linker would do, for the little that LLVM's large code model needs of one. The ELF format and the numbers of relocations are those of the
System V ABI for AMD64. Memory is first writable, then executable, never both.
"""

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import torch

_MACHINE_X86_64, _RELOCATABLE = 62, 1
_SYMTAB, _RELA, _NOBITS, _PROGBITS = 2, 4, 8, 1
_ALLOC = 2
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
# relocation -> (format of the field, whether it is relative to its place)
_RELOCATIONS = {
    1: ("<Q", False),
    24: ("<q", True),
    2: ("<i", True),
    4: ("<i", True),
    10: ("<I", False),
    11: ("<i", False),
}
_EXECUTE, _READ = 4, 1


class ObjectCodeError(Exception):
    """Bytes that are not object code for this machine, or need what is not here."""


@dataclass(frozen=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass
class ObjectCode:
    """`addresses` of the functions called `_mlir_<name>`, by name. The code lives as long as this object."""

    addresses: dict[str, int]
    memory: list[mmap.mmap] = field(default_factory=list, repr=False)

    @staticmethod
    def load(data: bytes) -> "ObjectCode":
        """`data`: ELF files, one after another, or no bytes for no functions. Raises `ObjectCodeError` for what cannot be loaded."""
        code = ObjectCode({})
        try:
            while data:
                file, data = _first_file(data)
                addresses, memory = _load(file)
                code.addresses |= addresses
                code.memory.append(memory)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ObjectCodeError(f"not an object file: {error}") from error
        return code


def _first_file(data: bytes) -> tuple[bytes, bytes]:
    """The first ELF file in `data`, which ends with its table of sections as LLVM writes them, and what follows."""
    (start,) = struct.unpack_from("<Q", data, 40)
    step, count = struct.unpack_from("<HH", data, 58)
    end = start + step * count
    return data[:end], data[max(end, 64) :]


def _load(data: bytes) -> tuple[dict[str, int], mmap.mmap]:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ObjectCodeError("not a 64-bit ELF file")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if (kind, machine) != (_RELOCATABLE, _MACHINE_X86_64):
        raise ObjectCodeError(f"an ELF file of type {kind} for machine {machine}")
    sections = list(_sections(data))
    places, size = _layout(sections)
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, place in places.items():
        section = sections[number]
        if section.kind != _NOBITS:
            memory[place : place + section.size] = data[section.offset : section.offset + section.size]
    table = next((section for section in sections if section.kind == _SYMTAB), None)
    if table is None:
        raise ObjectCodeError("no symbols")
    symbols = list(_symbols(data, table, sections[table.link]))
    values = [_value(symbol, base, places) for symbol in symbols]
    for section in sections:
        if section.kind == _RELA and section.info in places:
            _relocate(data, section, memory, base, places[section.info], symbols, values)
    _protect(base, len(memory))
    names = {
        symbol.name.removeprefix("_mlir_"): value
        for symbol, value in zip(symbols, values)
        if symbol.name.startswith("_mlir_") and not symbol.name.startswith("_mlir__mlir_") and value is not None
    }
    return names, memory


def _sections(data: bytes) -> Iterator[_Section]:
    (start,) = struct.unpack_from("<Q", data, 40)
    step, count = struct.unpack_from("<HH", data, 58)
    for number in range(count):
        _, kind, flags, _, offset, size, link, info, align, _ = struct.unpack_from(
            "<IIQQQQIIQQ", data, start + number * step
        )
        if kind not in (0, _NOBITS) and offset + size > len(data):
            raise ObjectCodeError("cut short")
        yield _Section(kind, flags, offset, size, link, info, max(align, 1))


def _layout(sections: list[_Section]) -> tuple[dict[int, int], int]:
    """Section number -> offset in memory, for what has to be there; the size of all. Tables for unwinding are left out: no exception passes."""
    places, size = {}, 0
    for number, section in enumerate(sections):
        if section.flags & _ALLOC and section.kind in (_PROGBITS, _NOBITS):
            size = -(-size // section.align) * section.align
            places[number] = size
            size += section.size
    return places, size


@dataclass(frozen=True)
class _Symbol:
    name: str
    section: int
    value: int


def _symbols(data: bytes, table: _Section, strings: _Section) -> Iterator[_Symbol]:
    for at in range(table.offset, table.offset + table.size, 24):
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        start = strings.offset + name
        yield _Symbol(data[start : data.index(b"\0", start)].decode(), section, value)


def _value(symbol: _Symbol, base: int, places: dict[int, int]) -> int | None:
    """The address of a symbol; None for one in a section that is not loaded, or the empty first one."""
    if symbol.section == _UNDEFINED:
        return _library_function(symbol.name) if symbol.name else None
    if symbol.section == _ABSOLUTE:
        return symbol.value
    return base + places[symbol.section] + symbol.value if symbol.section in places else None


@cache
def _torch_library() -> ctypes.CDLL:
    """As `lowering/cpu/machine_code.py` has it, without which code is placed."""
    return ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))


def _library_function(name: str) -> int:
    """A function of torch's library (Sleef's are in it) or of what that is linked with: OpenMP, libm, libc."""
    try:
        address = ctypes.cast(getattr(_torch_library(), name), ctypes.c_void_p).value
    except AttributeError:
        address = None
    if address is None:
        raise ObjectCodeError(f"no function '{name}' in this process")
    return address


def _relocate(
    data: bytes,
    section: _Section,
    memory: mmap.mmap,
    base: int,
    target: int,
    symbols: list[_Symbol],
    values: list[int | None],
) -> None:
    for at in range(section.offset, section.offset + section.size, 24):
        offset, info, addend = struct.unpack_from("<QQq", data, at)
        number, kind = info >> 32, info & 0xFFFFFFFF
        value = values[number]
        if kind not in _RELOCATIONS:
            raise ObjectCodeError(f"a relocation of type {kind}")
        if value is None:
            raise ObjectCodeError(f"'{symbols[number].name}' is in no section that is loaded")
        text, relative = _RELOCATIONS[kind]
        place = target + offset
        struct.pack_into(text, memory, place, value + addend - (base + place if relative else 0))


def _protect(base: int, size: int) -> None:
    """From here on the memory can be run and not be written."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), _READ | _EXECUTE) != 0:
        raise ObjectCodeError(f"memory cannot be made executable: {os.strerror(ctypes.get_errno())}")
