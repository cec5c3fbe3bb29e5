"""Peak memory of a call: what torch's CPU allocator has handed out during it, at most, beyond what was live before."""

from collections.abc import Callable
from typing import Any

import torch


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most bytes that were live at one time while `call` ran, over those before it.

    Memory that something keeps between calls counts where it was allocated: free it first to have it counted here.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak
