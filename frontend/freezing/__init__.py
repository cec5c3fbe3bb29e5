"""Weights as constants, and what folds into them."""
