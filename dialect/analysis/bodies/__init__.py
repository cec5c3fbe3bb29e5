"""Questions about a kernel's body: loops, accesses, slices, equality, which dimensions collapse or split.

Nothing here changes the IR.
"""
