"""PyTorch's logs of compilation, its structured trace, and its timers. Checked on torch 2.11 to 2.14."""

import logging

from torch._dynamo.utils import dynamo_timed, lazy_format_graph_code
from torch._logging import getArtifactLogger, trace_structured
from torch._logging._internal import trace_log

BACKEND = "torch._dynamo.backends.bascule"  # a name of torch's, whose handlers print it
inductor_log = logging.getLogger("torch._inductor")

__all__ = [
    "BACKEND",
    "dynamo_timed",
    "getArtifactLogger",
    "inductor_log",
    "lazy_format_graph_code",
    "trace_log",
    "trace_structured",
]
