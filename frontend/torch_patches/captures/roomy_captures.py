"""Captures with room for their frames: see `frame_room`.

Dynamo traces what is inlined by calls within calls, some hundred frames deep. Inside `roomy_captures` each trace begins in a chunk of its own.

The function is private to PyTorch. Checked on torch 2.11 to 2.14; where it is not there, all is as ever.
"""

from bascule.compat.graphs.dynamo import convert_frame

from ..frame_room import with_room
from ..patch import attribute

_NAME = "transform_code_object"
_theirs = vars(convert_frame).get(_NAME)

roomy_captures = attribute(convert_frame, _NAME, _theirs, None if _theirs is None else with_room(_theirs))
