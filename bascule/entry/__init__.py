"""The user's entries: the backend of `torch.compile`, `compile_fx`, `explain`, the debug backends, a reproducer."""
