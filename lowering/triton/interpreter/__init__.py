"""Runs TTIR on CPU tensors, every program of the grid at once, with checks that a GPU does not make."""

from bascule.dialect.interpreter.errors import InterpreterError

from .machine import run_kernel
from .memory import Memory, share

__all__ = ["InterpreterError", "Memory", "run_kernel", "share"]
