"""The context of a trace: its fake mode, its symbols, what Dynamo told of it, the number of the compile. Checked on torch 2.11 to 2.14."""

from torch._guards import CompileContext, TracingContext, active_fake_mode, tracing

__all__ = [
    "CompileContext",
    "TracingContext",
    "active_fake_mode",
    "tracing",
]
