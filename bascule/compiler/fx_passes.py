"""The pipeline of FX passes of one compile, as its options ask for it."""

from collections.abc import Callable

from bascule.frontend.fx_pipeline.pipeline import FxPipeline

from ..options import Options
from ..pipelines import has_pass
from ..reporting.compile_record import Record
from ..reporting.fx_passes import FxWatch


def fx_pipeline(name: str, options: Options, *, captured: bool = False) -> FxPipeline:
    """That for the graphs of what is called `name`; `captured`: these come from Dynamo."""
    fuses = options.target != "cpu" and has_pass(options, "fuse-products")
    settings = {
        "philox": options.random == "philox",
        "index-asserts": options.checks_indices,
        "captured": captured,
        "fused-products": fuses,
    }
    hold = frozenset(setting for setting, holds in settings.items() if holds)
    interpreted = options.target == "interpret"
    return FxPipeline(hold, options.disable_fx_passes, FxWatch(name, options), interpreted=interpreted)


def told_of_passes(
    on_record: Callable[[Record], None] | None, passes: FxPipeline, name: str
) -> Callable[[Record], None] | None:
    """`on_record`, to which each record of a whole graph of `name` tells which passes have run since the one before."""
    if on_record is None:
        return None
    told = 0

    def tell(record: Record) -> None:
        nonlocal told
        if record.name in {f"{name}_{direction}" for direction in ("forward", "backward", "inference")}:
            record.fx_runs, told = passes.runs[told:], len(passes.runs)
        on_record(record)

    return tell
