"""Loops that are something together: contractions, attentions with the masks of their scores, sums over windows.

Nothing here changes the IR.
"""
