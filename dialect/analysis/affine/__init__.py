"""Affine forms of index expressions: parsed, simplified, compared; which dimension is fastest."""
