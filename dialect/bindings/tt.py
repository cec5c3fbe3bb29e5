"""MLIR's bindings import this when they first meet an op of Triton's dialect, which is known by the names of its ops."""
