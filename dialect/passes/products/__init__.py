"""Passes of the tensor stage that make products of matrices, convolutions and attention computes, and computes of several of them one. One pass
a file."""
