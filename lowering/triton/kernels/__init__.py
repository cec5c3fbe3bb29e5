"""A whole Triton kernel: its schedule as read, loops and their kinds, signature and launch."""
