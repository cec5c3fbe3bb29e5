"""The remote cache: bytes by kind and key that a fleet shares, on a Redis server or wherever fsspec writes, signed, in bounds, never an error.

What the bytes mean, and what is kept here of them, is above, in `bascule/cache`.
"""
