"""The passes over FX graphs as `bascule-opt --list-passes` prints them, which finds this by its entry point `bascule.pass_lists`."""

import textwrap
from collections.abc import Iterator

from .registry import PASSES


def fx_passes() -> Iterator[str]:
    """Lines: a title; each pass with its stages, the first sentence of what it does, when it runs, and why it is required."""
    yield "passes over FX graphs, before the import (options disable_fx_passes, print_fx_passes)"
    for each in PASSES.values():
        yield f"  {each.name} ({', '.join(each.stages)})"
        when, required = each.when(), each.required
        for text in (each.summary(), f"with: {when}" if when else "", f"required: {required}" if required else ""):
            if text:
                yield textwrap.fill(text, 120, initial_indent=" " * 6, subsequent_indent=" " * 6)
