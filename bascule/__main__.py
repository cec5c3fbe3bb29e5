"""`python -m bascule`: the command `bascule`."""

import sys

from .tools.main import main

sys.exit(main())
