"""Where MLIR's bindings look for the Python modules of our dialects: see `dialect/mlir.py`."""
