"""Passes over FX graphs before import: common subexpressions, padding of products, batch norms, masks, seeds.

One pass a file. User passes are in `bascule/compiler/custom_passes.py`.
"""
