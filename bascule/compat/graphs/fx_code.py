"""Code that FX graphs are printed as. Checked on torch 2.11 to 2.14."""

from torch.fx.graph import _PyTreeCodeGen as PyTreeCodeGen

__all__ = ["PyTreeCodeGen"]
