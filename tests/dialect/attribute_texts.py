"""Attributes of any kind, as texts: what stands where a pass or a tool takes another kind for granted."""

TEXTS = (
    "unit",
    '"x"',
    "-1 : i64",
    "[]",
    '[1, "x", unit]',
    "{}",
    "array<i64: 0, 9>",
    "affine_map<(d0)[s3] -> (d0 * s3)>",
)
