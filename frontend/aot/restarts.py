"""Traces that AOTAutograd gives up: numbers that a module holds were inputs, and what is computed with them takes no tensors (`eps` of a norm).

Dynamo then traces again with these numbers as constants. That it will is known from the graph, so that the first trace need not be made again in
another process. PyTorch's modules for this are private. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bascule.compat.graphs.dynamo import TensorifyScalarRestartAnalysis as Restart
from bascule.compat.graphs.dynamo import TensorifyState


@contextmanager
def restarts(noted: Callable[[Sequence[str]], None]) -> Iterator[None]:
    """Where a trace inside is given up, `noted` gets the names of the numbers that are constants from then on."""
    before = set(TensorifyState.force_specializations)
    try:
        yield
    except Restart:
        noted(sorted(TensorifyState.force_specializations - before))
        raise


def restart(names: Sequence[str]) -> None:
    """Gives a trace up for the numbers `names`, as one was; goes on if all of them are constants already."""
    if not all(map(TensorifyState.should_specialize, names)):
        for name in names:
            TensorifyState.specialize(name)
        raise Restart
