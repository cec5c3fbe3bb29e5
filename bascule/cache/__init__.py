"""The disk cache: traces, compiled graphs, their keys and versions.

Reading an entry needs no compiler: nothing here imports MLIR before an entry is missed.
"""
