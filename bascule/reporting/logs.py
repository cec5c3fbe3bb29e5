"""Our stages among PyTorch's logs and traces, under the names where Inductor's users look for them.

`TORCH_LOGS`: `+bascule` (times of stages), `pre_grad_graphs` and `post_grad_graphs` (FX graphs, around the user's passes), `ir_pre_fusion` and
`ir_post_fusion` (the IR before kernels are formed, and with schedules), `fusion` (what was not fused, and why), `schedule` (the kernels),
`kernel_code` (of each kernel), `output_code` (the generated modules), `cudagraphs` and `perf_hints`. `TORCH_TRACE=directory`: artifacts for
`tlparse`. Times are in Dynamo's `compile_times()` and among the metrics of a compilation.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

from torch.fx import GraphModule

from ..compat.graphs.logs import (
    BACKEND,
    dynamo_timed,
    getArtifactLogger,
    inductor_log,
    lazy_format_graph_code,
    trace_log,
    trace_structured,
)


def _logger(artifact: str) -> logging.Logger:
    return getArtifactLogger(BACKEND, artifact)


output_code, kernel_code = _logger("output_code"), _logger("kernel_code")
pre_fusion, post_fusion = _logger("ir_pre_fusion"), _logger("ir_post_fusion")
fusion, schedule = _logger("fusion"), _logger("schedule")
cudagraphs, perf_hints = _logger("cudagraphs"), _logger("perf_hints")
_pre_grad, _post_grad = _logger("pre_grad_graphs"), _logger("post_grad_graphs")


# Of graphs, beside their code.
_SHOWN: dict[str, Any] = {"include_stride": True, "include_device": True}


def trace(name: str, text: Callable[[], str]) -> None:
    """An artifact called `name`; `text` is only asked for where a trace is kept."""
    trace_structured("artifact", metadata_fn=lambda: {"name": name, "encoding": "string"}, payload_fn=text)


def is_traced() -> bool:
    """Whether artifacts are kept."""
    return bool(trace_log.handlers)


@cache
def _tell_of_log() -> None:
    inductor_log.info(
        "graphs are compiled by Bascule: TORCH_LOGS=bascule logs its stages, TORCH_LOGS=+bascule its decisions"
    )


def trace_captured(name: str, gm: GraphModule) -> None:
    """Logs `gm`, which Dynamo captured, before passes of the user's run on it. Who reads Inductor's log is told once where ours is."""
    if inductor_log.isEnabledFor(logging.INFO):
        _tell_of_log()
    _pre_grad.debug("%s", _code(f"BEFORE PRE GRAD {name}", gm))


def trace_compiled(name: str, gm: GraphModule) -> None:
    """Logs `gm`, a graph of ATen operators that is compiled, as the user's passes left it."""
    _post_grad.debug("%s", _code(f"AFTER POST GRAD {name}", gm))
    trace_structured("inductor_post_grad_graph", payload_fn=partial(readable, gm))


def readable(gm: GraphModule) -> str:
    """The code of `gm`, with sizes, strides and devices."""
    return gm.print_readable(print_output=False, **_SHOWN)


def _code(title: str, gm: GraphModule) -> object:
    """The text of `gm`, made when a log is written."""
    return lazy_format_graph_code(title, gm, **_SHOWN)


def timed(stage: str, *, whole: bool = False) -> AbstractContextManager[None]:
    """The time of a stage, for `compile_times()` and traces; that of a `whole` compilation counts as Inductor's does, in the metrics."""
    column = "inductor_cumulative_compile_time_us" if whole else None
    return dynamo_timed(f"bascule.{stage}", log_pt2_compile_event=whole, dynamo_compile_column_us=column)
