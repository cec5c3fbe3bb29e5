"""MLIR to machine code of a CPU: modules, compilation, object files, MLIR's C API."""
