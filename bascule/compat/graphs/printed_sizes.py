"""Functions of sizes, as PyTorch prints them in guards. Checked on torch 2.11 to 2.14."""

SQRT = "torch._sym_sqrt"

__all__ = ["SQRT"]
