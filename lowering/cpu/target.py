"""What the machine offers: how many bits its vector registers have."""

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Target:
    """`vector_bits` is 512 (AVX-512), 256 (AVX2) or 128 (SSE). `avx`: Sleef's vector functions run; else those of libm are called."""

    vector_bits: int
    avx: bool = True

    @property
    def lanes(self) -> int:
        """f32 elements in a register."""
        return self.vector_bits // 32


@cache
def host() -> Target:
    """The widest vectors that this machine's flags allow."""
    flags: set[str] = set()
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("flags"):
                flags.update(line.split(":", 1)[1].split())
                break
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        return Target(512)
    return Target(256 if {"avx2", "fma"} <= flags else 128, "avx" in flags)
