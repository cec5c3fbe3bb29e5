"""Where entries of a kind are kept and looked for: on disk or in memory, behind that the remote cache; and what is recorded for artifacts.

Entries are bytes here; what they mean is above, in `bascule/cache`.
"""
