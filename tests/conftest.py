"""Tests see what the compiler does: nothing comes from the disk cache of the machine, unless a test gives it a directory."""

import os

os.environ["BASCULE_CACHE_DIR"] = ""
