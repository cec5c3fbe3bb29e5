"""The CPU of this machine: the width of its vector registers in bits, and the bytes of its last cache.

The processor is asked here and in `runtime/kernels/processor.py`: `bascule-opt` lowers for this machine without the runtime, and the runtime
places code of a package without the lowering. Neither may import the other.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch


@dataclass(frozen=True)
class Target:
    """`vector_bits` is 512 (AVX-512), 256 (AVX2) or 128 (SSE). `avx`: Sleef's vector functions run; else those of libm are called.

    `most`: LLVM may not put operations on longer vectors into registers of more than `vector_bits` (256) bits, even where the machine has them.
    """

    vector_bits: int
    avx: bool = True
    most: bool = False

    @property
    def lanes(self) -> int:
        """f32 elements in a register."""
        return self.vector_bits // 32


@cache
def host() -> Target:
    """The widest vectors that this machine's flags allow."""
    flags = set(_processor().get("flags", "").split())
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        return Target(512)
    return Target(256 if {"avx2", "fma"} <= flags else 128, "avx" in flags)


@cache
def cache_bytes() -> int:
    """Bytes of the last cache of this processor, 0 where the system does not tell."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) << 10 for size in sizes if size.endswith("K") and size[:-1].isdigit()), default=0)


@cache
def onednn_multiplies_faster() -> bool:
    """Whether oneDNN's f32 matrix products are faster than `aten.mm`'s: where that is MKL, which uses AVX-512 on Intel's processors only."""
    vendor = _processor().get("vendor_id", "")
    return (
        host().vector_bits == 512
        and vendor != "GenuineIntel"
        and torch.backends.mkl.is_available()
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


@cache
def _processor() -> dict[str, str]:
    """The system's facts about the first processor: "flags", "vendor_id" and so on."""
    found: dict[str, str] = {}
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                break
            found[name.strip()] = value.strip()
    return found
