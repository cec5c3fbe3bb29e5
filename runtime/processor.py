"""What this machine's processor can run."""

import platform
from functools import cache


@cache
def instruction_sets() -> frozenset[str]:
    """The processor's kind and its flags, for which LLVM compiles: code of a machine runs where all that it has is."""
    found = {platform.machine()}
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                found.update(line.split(":", 1)[1].split())
                break
    return frozenset(found)
