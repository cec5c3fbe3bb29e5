"""The entry point that `torch.compile(f, backend="bascule")` loads: PyTorch's version is checked before the rest is imported."""

from collections.abc import Callable, Sequence
from typing import Any

from ..compat.versions import check


def bascule(gm: Any, example_inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
    """`bascule.entry.backend.bascule`. Raises RuntimeError where PyTorch is too old."""
    check("torch")
    from . import backend

    return backend.bascule(gm, example_inputs, **given)


def _reset() -> None:
    from ..cudagraphs.cudagraphify import forget_recordings

    forget_recordings()


# What `torch.compiler.reset` calls.
bascule.reset = _reset  # type: ignore[attr-defined]
