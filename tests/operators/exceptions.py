"""Operators of the database that are not compared as the others are, with the reason; by name of the entry.

Nothing that runs may be wrong: an operator that AOTAutograd cannot trace runs through Dynamo, graph breaks and all, and
is compared with eager.
"""

_OTHER_RANDOM = "draws other random numbers than eager"
_UNWRITTEN = "shows memory that nobody has written"
_DATA_SIZES = "its result's sizes depend on data"
_DATA_NUMBER = "a number of its result decides how it goes on"
_SPARSE = "its result is sparse: the layout is outside of what AOTAutograd traces, and a fake one crashes torch"

# Sizes, dtypes and strides are compared, numbers are not.
NUMBERS_DIFFER: dict[str, str] = {
    "cauchy": _OTHER_RANDOM,
    "exponential": _OTHER_RANDOM,
    "geometric": _OTHER_RANDOM,
    "log_normal": _OTHER_RANDOM,
    "normal_in_place": _OTHER_RANDOM,
    "uniform": _OTHER_RANDOM,
}

# What AOTAutograd cannot trace by itself runs through Dynamo, which leaves parts of it to eager.
THROUGH_DYNAMO: dict[str, str] = {
    "item": _DATA_NUMBER,
    "allclose": _DATA_NUMBER,
    "combinations": _DATA_SIZES,
    "corrcoef": _DATA_NUMBER,
    "cov": _DATA_NUMBER,
}

# Not run at all.
SKIPPED: dict[str, str] = {"to_sparse": _SPARSE}
