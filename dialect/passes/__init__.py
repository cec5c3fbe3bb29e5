"""Passes over the dialect, and pipelines of them. One pass a file, named as the pass is."""

from .base import BUFFERS, EITHER, VALUES, Pass
from .pipeline import Pipeline, UpstreamPass, is_known, option_names
from .registry import add, find, load, names, own_names

__all__ = [
    "BUFFERS",
    "EITHER",
    "VALUES",
    "Pass",
    "Pipeline",
    "UpstreamPass",
    "add",
    "find",
    "is_known",
    "load",
    "names",
    "option_names",
    "own_names",
]
