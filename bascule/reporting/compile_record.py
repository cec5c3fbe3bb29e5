"""The record of one graph's compilation: how long each stage took, the IR it left, what came out."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bascule.frontend.fx_pipeline.pipeline import FxRun

from ..options import Options
from . import logs
from .dump_files import written
from .graph_summary import Summary
from .pool import Pool
from .stage_manifest import FILE, IMPORT, WRAPPER, WRAPPER_FILE, Manifest

if TYPE_CHECKING:  # what is loaded from a cache has a record too, and needs neither MLIR nor the importer
    from bascule.frontend.graph_split.split_point import Cut

    from ..dialect.mlir import ir

log = logging.getLogger("bascule")
UNREPLAYED = "not replayed"  # how `replay` begins where it tells why not
RECORD_FILE = "record.json"
FORMS = "form-kernels"  # the pass that fuses
# Pass -> the stage that it leaves.
LEAVES = {"torch-to-bascule": "tensor", "schedule-kernels": "kernel", "plan-memory": "program"}


@dataclass
class Record:
    """One graph's way through the compiler; `bascule.explain` shows it."""

    name: str  # "graph0_forward"
    options: Options
    nodes: int  # of the FX graph
    direction: str = ""  # forward, backward or inference
    compile_id: str = ""  # Dynamo's number of the compile
    seconds: dict[str, float] = field(default_factory=dict)  # stage or pass -> time
    fx_runs: list[FxRun] = field(
        default_factory=list
    )  # the FX passes that ran for it, also those over the graphs that it was made of
    running: str = ""  # the stage or pass at work: after a failure, the one that failed
    module: "ir.Module | None" = None  # as the last stage left it
    summary: Summary | None = None  # of the program
    manifest: dict[str, Any] | None = None  # where it is dumped
    wrapper: str | None = None  # the source of the Python module
    fallback: str | None = None  # why the graph was not compiled
    cuts: "list[Cut]" = field(default_factory=list)  # operators between which it was compiled, in parts
    # Kernels that did not compile, whose operators run in PyTorch, and why.
    refused: list[str] = field(default_factory=list)
    untuned: str | None = None  # with the option `max_autotune`: why nothing was measured
    replay: str | None = None  # whether it is replayed as a CUDA graph: how, or why not
    tier: str | None = None  # with the option `tiers`: what ran it until its kernels were there
    pool: Pool | None = None  # the memory that its recording takes
    target: str = ""  # what kernels were compiled for
    subjects: tuple[str, ...] = ()  # what of the graph warnings about the device may be about
    aligned: bool = True  # whether the dynamic sizes at hand are multiples of 16
    lowering: bool = False  # whether all passes have run
    kernels_done: Callable[[], tuple[int, int]] | None = (
        None  # while threads compile kernels: how many are done, of how many
    )
    edits: Mapping[str, str] = field(
        default_factory=dict
    )  # files made after the passes, and the texts that stand for theirs

    def __post_init__(self) -> None:
        self._stages = Manifest(self.name, self.direction)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times the stage `name`."""
        self.running, start = name, perf_counter()
        with logs.timed(name):
            yield
        self._finish(name, perf_counter() - start)

    def observe(self, when: str, stage: Any, module: "ir.Module") -> None:
        """An observer for `Pipeline.run`: times each pass, and dumps what it leaves."""
        if when == "before":
            if stage.name == FORMS:
                logs.pre_fusion.debug("%s before fusion:\n%s", self.name, Text(module))
            self.running, self._start = stage.name, perf_counter()
        elif when == "after":
            self._finish(stage.name, perf_counter() - self._start)
            self.dump_module(stage.name, module)
            if stage.name in LEAVES:
                logs.trace(f"bascule_{self.name}_{LEAVES[stage.name]}", lambda: text_of(module))
            if LEAVES.get(stage.name) == "kernel":
                logs.post_fusion.debug("%s after fusion:\n%s", self.name, Text(module))

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks at what single passes do, or decides for them."""
        options = self.options
        logged = logs.pre_fusion.isEnabledFor(logging.DEBUG) or logs.post_fusion.isEnabledFor(logging.DEBUG)
        asked = (options.dump, options.replay, options.hooks)
        return logged or logs.is_traced() or options.verify or any(each is not None for each in asked)

    def _finish(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        log.debug("%s: %s took %.1f ms", self.name, name, 1e3 * seconds)

    def dump_module(self, stage: str, module: "ir.Module") -> None:
        """Writes the IR that `stage` left, if there is a directory for it."""
        if self.options.dump is not None:
            self.dump_stage(f"{len(self._stages.stages):02}-{stage}.mlir", stage, text_of(module))

    def dump_import(self, module: "ir.Module", source: str) -> None:
        """Writes the IR as it was imported; `source` is the digest by which the graph is known again."""
        self._stages.source = source
        self.dump_module(IMPORT, module)

    def dump_wrapper(self, text: str) -> str | None:
        """Writes the module that runs the graph; returns its path, if it was written."""
        return self.dump_stage(WRAPPER_FILE, WRAPPER, text)

    def dump_stage(self, file: str, left_by: str, text: str) -> str | None:
        """Writes `file`, which `left_by` made, and notes in `stages.json` what is in it; returns its path, if it was written."""
        path = self.dump(file, text)
        if path is not None:
            self._stages.add(file, left_by, text)
            self.dump(FILE, self._stages.text())
        return path

    def dump(self, file: str, text: str) -> str | None:
        """Writes `file`, if there is a directory for it that takes it; returns its path."""
        if self.options.dump is None:
            return None
        path = Path(self.options.dump) / self.name / file
        return str(path) if written(path, text) else None

    @property
    def compiled(self) -> bool:
        """Whether `module` is what runs: the graph was compiled, and as one."""
        return self.fallback is None and not self.cuts

    def to_json(self) -> dict[str, Any]:
        """The part of it that a dump has beside the IR."""
        names = ("name", "nodes", "target", "fallback", "refused", "untuned", "replay", "seconds")
        passes = [vars(run) for run in self.fx_runs]
        return {name: getattr(self, name) for name in names} | {"cuts": list(map(str, self.cuts)), "fx_passes": passes}

    def finished(self) -> None:
        """The graph is compiled, but for what other threads still compile; or it is not."""
        if self.options.dump is not None:
            self.dump(RECORD_FILE, json.dumps(self.to_json(), default=str))
        total, cuts = sum(self.seconds.values()), "; ".join(map(str, self.cuts))
        how = self.fallback or (f"compiled in parts, cut at {cuts}" if cuts else "compiled")
        log.info("%s: %d nodes, %s, %.2f s", self.name, self.nodes, how, total)
        if self.replay is not None:
            log.info("%s: CUDA graph: %s", self.name, self.replay)
            logs.cudagraphs.debug("%s: %s", self.name, self.replay)
        if self.wrapper is not None:
            logs.output_code.debug("%s:\n%s", self.name, self.wrapper)
            logs.trace(f"bascule_{self.name}_output_code", lambda: self.wrapper or "")
        if self.summary is not None and self.compiled:
            self._tell(self.summary)

    def _tell(self, summary: Summary) -> None:
        """Logs the kernels, what was not fused, and what costs time that a user might save."""
        for kernel in summary.kernels:
            operators = ", ".join(kernel.operators)
            logs.schedule.debug("%s: %s over %s: %s", self.name, kernel.name, kernel.domain, operators)
        for remark in dict.fromkeys(map(str, summary.remarks)):
            logs.fusion.debug("%s: %s", self.name, remark)
        hints = [f"a kernel did not compile: {refused}" for refused in self.refused]
        if self.untuned is not None:
            hints.append(f"max_autotune measured nothing: {self.untuned}")
        if self.replay is not None and self.replay.startswith(UNREPLAYED):
            hints.append(f"CUDA graph: {self.replay}")
        for hint in hints:
            logs.perf_hints.info("%s: %s", self.name, hint)


@dataclass(frozen=True)
class Text:
    """A module, whose text is made when a log is written."""

    module: "ir.Module"

    def __str__(self) -> str:
        return text_of(self.module)


def text_of(module: "ir.Module") -> str:
    """The module's text, with locations, as `bascule-opt` reads it."""
    return module.operation.get_asm(enable_debug_info=True)
