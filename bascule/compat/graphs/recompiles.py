"""Why Dynamo compiled a frame again, from its metrics of compilations. Checked on torch 2.11 to 2.14."""

from typing import Any

from torch._dynamo.utils import get_compilation_metrics

__all__ = ["last_compilation", "recompiles_after"]


def last_compilation() -> Any:
    """The metrics of the last compilation; None where there was none."""
    return next(reversed(get_compilation_metrics()), None)


def recompiles_after(last: Any) -> list[dict[str, str]]:
    """Each recompile after `last`, of those that PyTorch keeps: the frame, and the guard that failed."""
    known = get_compilation_metrics()
    began = next((number + 1 for number, metrics in enumerate(known) if metrics is last), 0)
    return [
        {
            "frame": f"{metrics.co_name} ({metrics.co_filename}:{metrics.co_firstlineno})",
            "reason": metrics.recompile_reason,
        }
        for metrics in known[began:]
        if metrics.recompile_reason
    ]
