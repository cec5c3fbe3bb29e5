"""Places in the user's files, which Dynamo names for its log and in its nodes' stack traces.

For each operator Dynamo makes a text for its log, with the name of the function around a line, for which it reads the user's whole file into
tokens. It puts off the rest of the message, but not that. Inside `log_headers_on_demand` the text is made when it is written.

For each operator, too, it writes the stack trace of all frames around, though most frames stand where they stood for the operator before, and
asks of each by a regular expression whether it is of `torch.nn.modules`. Inside `stack_texts_once` each place is written, and each file asked,
once.

The functions are private to PyTorch. Checked on torch 2.11 to 2.14; where one is not there, all is as ever.
"""

import traceback
from dataclasses import dataclass
from traceback import FrameSummary, StackSummary
from typing import Any

from bascule.compat.graphs.dynamo import InstructionTranslatorBase, output_graph

from ..patch import attribute, together

_HEADER, _NN = "get_line_of_code_header", "is_co_filename_from_nn_modules"
_theirs = vars(InstructionTranslatorBase).get(_HEADER)
_asked = vars(InstructionTranslatorBase).get(_NN)
_texts: dict[tuple[Any, ...], str] = {}  # place -> its lines of a stack trace; of one capture: files may change
_files: dict[str, bool] = {}  # name -> whether it is of torch.nn.modules


@dataclass(frozen=True)
class _Header:
    translator: Any
    lineno: int

    def __str__(self) -> str:
        assert _theirs is not None
        return _theirs(self.translator, self.lineno)  # type: ignore[no-any-return]


def _header(self: Any, lineno: int | None = None) -> Any:
    return _Header(self, self.lineno if lineno is None else lineno)


class _Stack(StackSummary):
    """A stack whose frames without local variables are written once."""

    @classmethod
    def from_list(cls, a_list: Any) -> "_Stack":
        return cls(StackSummary.from_list(a_list))

    def format_frame_summary(self, frame_summary: FrameSummary, **how: Any) -> str:
        if frame_summary.locals or how:
            return super().format_frame_summary(frame_summary, **how)
        ends = [getattr(frame_summary, name, None) for name in ("end_lineno", "colno", "end_colno")]
        place = (frame_summary.filename, frame_summary.lineno, frame_summary.name, *ends)
        text = _texts.get(place)
        if text is None:
            text = _texts[place] = super().format_frame_summary(frame_summary)
        return text


class _Traceback:
    """The module `traceback`, but for `StackSummary`."""

    StackSummary = _Stack

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


def _is_of_nn(self: Any) -> bool:
    assert _asked is not None
    file = self.f_code.co_filename
    if file not in _files:
        _files[file] = _asked(self)
    return _files[file]


log_headers_on_demand = attribute(InstructionTranslatorBase, _HEADER, _theirs, _header)
_parts = (
    attribute(output_graph, "traceback", traceback, _Traceback()),
    attribute(InstructionTranslatorBase, _NN, _asked, _is_of_nn),
)
stack_texts_once = together(*_parts, after=_texts.clear)
