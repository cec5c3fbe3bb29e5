"""The entry point that `torch.compile(f, backend="bascule")` loads: PyTorch's version is checked before the rest is imported."""

from collections.abc import Callable, Sequence
from typing import Any

from ..compat.graphs.backends import tolerate_repeats
from ..compat.versions import check, is_checked


def bascule(gm: Any, example_inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
    """`bascule.entry.backend.bascule`. Raises RuntimeError where PyTorch is too old."""
    check("torch")
    _before_captures()
    from . import backend

    return backend.bascule(gm, example_inputs, **given)


def _reset() -> None:
    from ..cudagraphs.cudagraphify import forget_recordings

    forget_recordings()


def _before_captures() -> None:
    """Where this PyTorch was checked: how Dynamo tells of captures, and what its fake operators do, is inside of it."""
    if is_checked("torch"):
        from bascule.frontend.torch_patches import fake_results

        from .captures import pause_in_captures

        fake_results.correct()
        pause_in_captures()


# What `torch.compiler.reset` calls.
bascule.reset = _reset  # type: ignore[attr-defined]

tolerate_repeats()
_before_captures()  # `torch.compile` loads this before anything is captured
