"""The one store on disk: bytes by kind and key, signed, in files of the user's own, within one limit.

What the bytes mean is above, in `bascule/cache`.
"""
