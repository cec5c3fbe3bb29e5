"""An NVIDIA GPU as its schedules see it: measures that they share."""

from dataclasses import dataclass

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
PARAMETERS = 480  # addresses that a launch takes: of 4 KiB of parameters, with room for sizes


@dataclass(frozen=True)
class CudaMachine:
    """The GPU as schedules see it: multiprocessors, compute capability (90: sm_90), 32-bit registers of a multiprocessor."""

    sm_count: int
    capability: int
    registers: int

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a program may have; programs of one multiprocessor have about as much together."""
        return SHARED.get(self.capability, LEAST_SHARED)


# What is assumed where no machine is told; an H100 has the same.
H200 = CudaMachine(sm_count=132, capability=90, registers=1 << 16)


def power_of_two(size: int) -> int:
    """The smallest power of two that is `size` or more."""
    return 1 << max(0, size - 1).bit_length()


def waste(size: int, block: int) -> float:
    """Points of whole blocks over those that there are."""
    return -(-size // block) * block / max(1, size)


def warps_of(elements: int, each: int) -> int:
    """Warps whose threads have `each` of `elements`."""
    return min(MOST_WARPS, max(1, elements // (WARP * each)))
