"""Contract of the dialect that the ops' own verifiers do not check: one file a subject.
`module.py` walks a module and asks the others, at each op that they have a check of."""
