"""`local_map`, which nobody imported, not imported to ask whether a value is it.

Dynamo asks of functions that it looks at whether they are the one that `torch.distributed.tensor.experimental` wraps, for which it imports
that: with the operators of context parallelism it registers, 45 ms and more. Inside `local_map_as_imported` a value is that function only where
its module has been imported; else nobody can have it.

The class that asks is private to PyTorch. Checked on torch 2.11 to 2.14; where it is not there, all is as ever.
"""

import sys
from typing import Any

from bascule.compat.graphs.dynamo import LOCAL_MAP_MODULE, higher_order_ops

from ..patch import attribute

_NAME = "should_wrap_in_hop"
_asking = getattr(higher_order_ops, "LocalMapWrappedHigherOrderVariable", None)
_theirs = vars(_asking).get(_NAME) if _asking is not None else None


def _should_wrap_in_hop(cls: type, value: Any) -> bool:
    return LOCAL_MAP_MODULE in sys.modules and bool(_theirs.__get__(None, cls)(value))  # type: ignore[union-attr]


local_map_as_imported = attribute(_asking, _NAME, _theirs, classmethod(_should_wrap_in_hop))
