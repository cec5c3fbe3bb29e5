"""Inductor's settings, and the class of passes that users write for it. Checked on torch 2.11 to 2.14."""

from torch._inductor import config, custom_graph_pass

__all__ = ["config", "custom_graph_pass"]
