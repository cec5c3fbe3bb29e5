"""Functions that generated modules call beside kernels: loading, split graphs, higher-order operators, checks of outputs.

Emitted text imports `runtime/module_api.py` only.
"""
