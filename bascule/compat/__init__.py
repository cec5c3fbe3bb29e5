"""Private parts of PyTorch, named here and nowhere else: one file a subject, with the versions it was checked on.

Stands under all layers, and imports none of them. Importing a file imports no more of PyTorch than its subject.
"""
