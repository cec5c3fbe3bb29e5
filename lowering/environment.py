"""The environment variables that change what Triton and LLVM compile, or that they are to compile: keys of what they have made cover them.

Nothing here needs either.
"""

import os

_CHANGING = ("TRITON_", "PTXAS_OPTIONS", "DISABLE_PTXAS_OPT", "LLVM_", "USE_IR_LOC")
_PLACES = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR")  # only where files are kept


def changing_environment() -> dict[str, str]:
    """Those that are set now."""
    return {name: value for name, value in os.environ.items() if name.startswith(_CHANGING) and name not in _PLACES}
