"""Places in the user's files named for Dynamo's log when the log asks.

For each operator Dynamo makes a text for its log, with the name of the function around a line, for which it reads the user's whole file into
tokens. It puts off the rest of the message, but not that. Inside `log_headers_on_demand` the text is made when it is written.

The function is private to PyTorch. Checked on torch 2.11 to 2.14; where it is not there, all is as ever.
"""

from dataclasses import dataclass
from typing import Any

from bascule.compat.graphs.dynamo import InstructionTranslatorBase

from .patch import attribute

_NAME = "get_line_of_code_header"
_theirs = vars(InstructionTranslatorBase).get(_NAME)


@dataclass(frozen=True)
class _Header:
    translator: Any
    lineno: int

    def __str__(self) -> str:
        assert _theirs is not None
        return _theirs(self.translator, self.lineno)  # type: ignore[no-any-return]


def _header(self: Any, lineno: int | None = None) -> Any:
    return _Header(self, self.lineno if lineno is None else lineno)


log_headers_on_demand = attribute(InstructionTranslatorBase, _NAME, _theirs, _header)
