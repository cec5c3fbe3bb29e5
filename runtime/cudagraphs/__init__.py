"""CUDA graphs as they are captured and replayed.

What is captured is decided in `bascule/cudagraphs`.
"""
