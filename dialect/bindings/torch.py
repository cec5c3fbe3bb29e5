"""MLIR's bindings import this when they first meet an op of the `torch` dialect, in place of a class for each of its 900 ops, which take 35 ms:
those that Bascule makes and reads are known by name."""
