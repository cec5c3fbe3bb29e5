"""MLIR's bindings import this when they first meet an op of the `llvm` dialect, in place of a class for each of its 300 ops: those that Bascule
makes are made by name."""
