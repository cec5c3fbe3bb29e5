"""Machinery of the fusion passes: inlining of bodies, grouping of computes into kernels, assembling kernel functions."""
