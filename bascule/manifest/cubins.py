"""The part of a multiprocessor that the machine code of a GPU kernel takes, read from its cubin: an ELF file of 64 bits."""

import struct
from collections.abc import Iterator

from ..runtime.kernels.cuda_driver import CubinImage

COUNTED, REGISTERS = 4, 0x2F  # of a record of `.nv.info`: the form that has a length and data; the one about registers
SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size


def takes(image: CubinImage) -> dict[str, int | None]:
    """Registers a thread, and bytes of shared memory a program. A cubin has one kernel."""
    sections = _sections(image.cubin)
    told, static = sections.get(".nv.info"), sections.get(f".nv.shared.{image.entry}")
    counts = [] if told is None else list(_registers(image.cubin[told[4] : told[4] + told[5]]))
    return {
        "registers": max(counts, default=None),
        "shared_bytes": image.shared + (0 if static is None else static[5]),
    }


def _registers(records: bytes) -> Iterator[int]:
    """The numbers in records of form and kind (a byte each), then the length of the data, or the datum itself (two bytes)."""
    at = 0
    while at + 4 <= len(records):
        form, kind, length = struct.unpack_from("<BBH", records, at)
        if (form, kind) == (COUNTED, REGISTERS):
            yield struct.unpack_from("<II", records, at + 4)[1]  # after the symbol of the kernel
        at += 4 + (length if form == COUNTED else 0)


def _sections(cubin: bytes) -> dict[str, tuple[int, ...]]:
    """The headers of the sections by name; none of what is no such file."""
    if cubin[:5] != b"\x7fELF\x02":
        return {}
    (start,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [SECTION.unpack_from(cubin, start + number * size) for number in range(count)]
    texts = headers[names][4]

    def name(offset: int) -> str:
        return cubin[texts + offset : cubin.index(b"\0", texts + offset)].decode()

    return {name(header[0]): header for header in headers}
