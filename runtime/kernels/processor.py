"""The instruction sets and the vendor of this machine's processor. `lowering/cpu/values/target.py`, which says why, asks it too."""

import platform
from functools import cache


@cache
def instruction_sets() -> frozenset[str]:
    """The processor's kind and its flags, for which LLVM compiles: code of a machine runs where all that it has is."""
    told = _first_processor()
    return frozenset([platform.machine(), *told.get("flags", told.get("Features", "")).split()])


def vendor() -> str:
    """Who made the processor, as it says; empty if it does not."""
    return _first_processor().get("vendor_id", "")


def model() -> str:
    """Which of its maker's processors it is, by numbers: LLVM schedules for it, and knows instructions of it that a system may not name."""
    told = _first_processor()
    return " ".join(told.get(name, "-") for name in ("cpu family", "model", "CPU implementer", "CPU part"))


@cache
def _first_processor() -> dict[str, str]:
    """The system's facts about the first processor: "flags", "vendor_id" and so on."""
    found: dict[str, str] = {}
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                break
            found[name.strip()] = value.strip()
    return found
