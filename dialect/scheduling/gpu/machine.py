"""An NVIDIA GPU as its schedules see it: measures that they share."""

from dataclasses import dataclass

from ...machines.measures import value

WARP = 32  # threads
VECTOR = 16  # bytes that a thread loads with one instruction
MOST_WARPS = 16  # of a program, where nothing asks for more
LARGE = 1 << 31  # what a dynamic size counts as
# Bytes of shared memory that a program may have, by compute capability; of one unknown here, what it has at least.
SHARED = {
    capability: size << 10
    for size, capabilities in {
        64: (75,),
        96: (70,),
        99: (86, 89, 120, 121),
        163: (80, 87),
        227: (90, 100, 103, 110),
    }.items()
    for capability in capabilities
}
LEAST_SHARED = 99 << 10
RESERVED = 1 << 10  # bytes of it that the system has, for each program
PARAMETERS = 480  # addresses that a launch takes: of 4 KiB of parameters, with room for sizes

REGISTER = 4  # bytes
HELD = (
    5 / 8
)  # of a multiprocessor's registers: what programs take from one loop to a later one; the rest is for the step at hand
# Of the L2 cache: what is still there of the rows under way when they are read again. Its two halves each have what both are asked for, and what
# is written passes through: 204 KiB of a multiprocessor's share on an H200.
CACHED = 7 / 16


@dataclass(frozen=True)
class CudaMachine:
    """The GPU as schedules see it: multiprocessors, compute capability (90: sm_90), 32-bit registers of a multiprocessor, bytes of the L2
    cache."""

    sm_count: int
    capability: int
    registers: int
    l2_bytes: int

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a program may have; programs of one multiprocessor have about as much together."""
        return SHARED.get(self.capability, LEAST_SHARED)

    @property
    def held(self) -> int:
        """Bytes that the programs of a multiprocessor keep in registers from one loop to a later one, at most."""
        return int(HELD * self.registers) * REGISTER

    @property
    def cached(self) -> int:
        """Bytes of the rows under way on a multiprocessor that the L2 cache has when they are read again, at most."""
        return int(CACHED * self.l2_bytes) // self.sm_count


# What is assumed where no machine is told; an H100 has the same, and an L2 cache of 50 MiB.
H200 = CudaMachine(*(value("h200", name) for name in ("sm_count", "capability", "registers", "l2_bytes")))


def power_of_two(size: int) -> int:
    """The smallest power of two that is `size` or more."""
    return 1 << max(0, size - 1).bit_length()


def waste(size: int, block: int) -> float:
    """Points of whole blocks over those that there are."""
    return -(-size // block) * block / max(1, size)


def warps_of(elements: int, each: int) -> int:
    """Warps whose threads have `each` of `elements`."""
    return min(MOST_WARPS, max(1, elements // (WARP * each)))
