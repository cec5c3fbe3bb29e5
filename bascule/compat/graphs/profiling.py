"""Whether a profiler of PyTorch's is at work in this thread. Checked on torch 2.11 to 2.14."""

from torch.autograd import _profiler_enabled as profiler_enabled

__all__ = ["profiler_enabled"]
