"""Remarks of passes: the record of a decision, without MLIR, and records as attributes of the IR."""
