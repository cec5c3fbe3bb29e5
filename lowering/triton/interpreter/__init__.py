"""Runs TTIR on CPU tensors, every program of the grid at once, with checks that a GPU does not make."""

from bascule.dialect.interpreter.errors import InterpreterError

from .memory import Memory, share
from .run import run_kernel

__all__ = ["InterpreterError", "Memory", "run_kernel", "share"]
