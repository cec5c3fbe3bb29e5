"""Functions that `torch.compile(...).aot_compile(...)` writes down, as it wants them of a backend. Checked on torch 2.11 to 2.14."""

from typing import Any

try:
    from torch._dynamo.aot_compile_types import SerializableCallable
except ImportError:  # 2.11 compiles nothing ahead of time
    SerializableCallable: Any = object  # type: ignore[no-redef]

__all__ = ["SerializableCallable"]
