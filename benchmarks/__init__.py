"""Benchmarks: each prints a table and writes JSON, with eager and Inductor measured beside Bascule in the same run.

`polynomials` fits coefficients instead, and `readme_figures` draws what others wrote.
"""
