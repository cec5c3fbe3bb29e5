"""Inductor's settings, the class of passes that users write for it, and that of compiled graphs. Checked on torch 2.11 to 2.14."""

from torch._inductor import config, custom_graph_pass
from torch._inductor.output_code import OutputCode

__all__ = ["OutputCode", "config", "custom_graph_pass"]
