"""Breaks that Dynamo has come upon before, made without tracing everything up to them once more.

Where Dynamo comes upon what it cannot trace, it begins again, and breaks the graph there. It breaks in the outermost function alone: one
that was inlined is called, and captured by itself, with its arguments of then. So it comes upon the same again, and begins again: of a model
whose `forward` is called by a decorator, as those of transformers are, all layers are traced three times where a function below breaks the
graph. Inside `foreseen_breaks` a capture that fails notes where each function between the outermost and the one at fault was. When that is
captured next, the error is raised there before anything of the instruction is traced. So there is nothing to undo, and Dynamo breaks the graph
at once, with the same messages and counts.

What is noted holds for the next capture alone, of the same thread and of the very function, which has to come to the same instruction by as
many steps. A break may stand anywhere, so one that would not have been is no error. The functions are private to PyTorch. Checked on torch 2.11
to 2.14; where one is not there, all is as ever.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import get_ident
from types import CellType, CodeType, FunctionType, TracebackType
from typing import Any, NoReturn

from bascule.compat.graphs import dynamo
from bascule.compat.graphs.dynamo import InstructionTranslatorBase, convert_frame

from ..patch import attribute, together

_LOG, _MAY_BREAK, _TRANSLATOR = "log_graph_break", "should_compile_partial_graph", "InstructionTranslator"
_CHECKPOINT = "_bascule_checkpoint"  # of a translator that inlines: how many instructions it began with an empty stack, and the last one
_TRACES = "inner_fn"  # of what handles an instruction at which a graph can break: what traces it

_inlining = getattr(dynamo, "InliningInstructionTranslator", None)
_theirs_log = vars(InstructionTranslatorBase).get(_LOG)
_theirs_may = vars(_inlining).get(_MAY_BREAK) if _inlining is not None else None
_theirs_translator = vars(convert_frame).get(_TRANSLATOR)
_step = InstructionTranslatorBase.step
_breaks: CodeType | None = getattr(getattr(InstructionTranslatorBase, "CALL_FUNCTION_EX", None), "__code__", None)


@dataclass(frozen=True)
class _Break:
    """The `error` of an instruction `at` in `code`, after so many `checkpoints`, instructions that found the stack empty, the last of them at
    `checkpoint`. `here`: whether Dynamo can break at the instruction itself; else it breaks at the checkpoint."""

    code: CodeType
    at: int
    checkpoints: int
    checkpoint: int
    here: bool
    error: Exception

    @property
    def place(self) -> int:
        return self.at if self.here else self.checkpoint

    def count(self, how: str) -> None:
        """Has the error counted, as one is that is made."""
        if hasattr(self.error, how):  # not every one is
            getattr(self.error, how)()


@dataclass
class _Known:
    """Breaks of the functions that are called one by another, outermost first, of a `thread`."""

    breaks: list[_Break] = field(default_factory=list)
    thread: int = 0


_now, _next = _Known(), _Known()  # of the capture in progress, and of the one after it


def _begin() -> None:
    global _now, _next
    _now, _next = (_next if _next.thread == get_ident() else _Known()), _Known()


# A capture that fails


def _may_break(self: Any) -> Any:
    if not self.stack and sys._getframe(1).f_code is _step.__code__:  # others ask when an instruction has failed
        number, _ = vars(self).get(_CHECKPOINT, (0, 0))
        vars(self)[_CHECKPOINT] = number + 1, self.instruction_pointer - 1
    assert _theirs_may is not None
    return _theirs_may(self)


def _log(self: Any, code_options: Any, reason: str, exc: Any) -> None:
    global _next
    known = any(exc is each.error for each in _now.breaks)
    if not known and self.parent is None and not dynamo.config.nested_graph_breaks:
        _next = _Known([*_between(exc)], get_ident())
    assert _theirs_log is not None
    _theirs_log(self, code_options, reason, exc)


def _between(error: Exception) -> Iterator[_Break]:
    """The breaks of the functions that were inlined, but for the last: that it is inlined may be at fault."""
    tracebacks = [*_traceback(error.__traceback__)]
    steps = [at for at, each in enumerate(tracebacks) if each.tb_frame.f_code is _step.__code__]
    inlined = [(at, tracebacks[at].tb_frame.f_locals["self"]) for at in steps]
    for at, translator in inlined[:-1]:
        if translator.parent is not None and _CHECKPOINT in vars(translator):
            here = tracebacks[at + 1].tb_frame.f_code is _breaks
            number, checkpoint = vars(translator)[_CHECKPOINT]
            place = translator.instruction_pointer - 1
            if not here or _is_straight(translator.instructions[checkpoint : place + 1]):
                yield _Break(translator.f_code, place, number, checkpoint, here, _again(error, _depth(translator)))


def _traceback(found: TracebackType | None) -> Iterator[TracebackType]:
    while found is not None:
        yield found
        found = found.tb_next


def _is_straight(instructions: list[Any]) -> bool:
    """Whether none of these can be met twice from the first one on."""
    return bool(instructions) and not any("BACKWARD" in each.opname for each in instructions)


def _depth(translator: Any) -> int:
    return 0 if translator.parent is None else 1 + _depth(translator.parent)


def _again(error: Exception, depth: int) -> Exception:
    """`error`, as it is met in a capture of the function that is inlined so deep: without the frames around, and without what it holds alive."""
    made: Exception = type(error).__new__(type(error))
    made.args = error.args
    vars(made).update(vars(error))
    if getattr(error, "real_stack", None):
        vars(made)["real_stack"] = type(error.real_stack)(error.real_stack[depth:])  # type: ignore[attr-defined]
    return made


# The capture after it


def _translator(instructions: Any, code: CodeType, *how: Any, **named: Any) -> Any:
    global _next
    assert _theirs_translator is not None
    made = _theirs_translator(instructions, code, *how, **named)
    codes = [each.code for each in _now.breaks]
    if code in codes:
        first = codes.index(code)
        made.step = _Steps(made, _now.breaks[first])
        _next = _Known(_now.breaks[first + 1 :], _now.thread)
    return made


class _Steps:
    """The steps of a translator up to a break that is known."""

    def __init__(self, translator: Any, known: _Break):
        self.translator, self.known, self.checkpoints = translator, known, 0

    def __call__(self) -> Any:
        translator, known, at = self.translator, self.known, self.translator.instruction_pointer
        if not translator.stack:
            self.checkpoints += 1
            if self.checkpoints == known.checkpoints and at != known.checkpoint:
                self.checkpoints += 1  # another way: nothing is known of it
        if self.checkpoints > known.checkpoints:
            del translator.step
        elif self.checkpoints == known.checkpoints and at == known.place:
            del translator.step
            _break(translator, known)
        return _step(translator)


def _break(translator: Any, known: _Break) -> None:
    """Has Dynamo note that the instruction which is next fails, as if it had been traced."""
    log, at, blocks = translator.speculation_log, translator.instruction_pointer, [*translator.block_stack]
    begin, instruction = log.index, translator.instructions[at]
    translator.current_instruction = instruction
    if begin != len(log.entries) or translator.active_generic_context_managers:
        return  # it was traced already, or is where no graph breaks
    if known.here and translator.maybe_has_backedge():
        return  # Dynamo leaves a function with a loop to Python
    translator.dispatch_table = [_failing(translator.dispatch_table[instruction.opcode], known)] * 256
    try:
        _step(translator)
    except dynamo.SpeculationRestartAnalysis:
        if not any(each.failed(translator) for each in log.entries[begin:]):
            raise  # the break is at a checkpoint before
    except dynamo.TorchDynamoException:  # no break is made there: what becomes of it, tracing says
        known.count("remove_from_stats")
    finally:
        del translator.dispatch_table
        known.error.__traceback__ = None  # it holds the frames of a capture, and these its tensors
        translator.instruction_pointer, log.index = at, begin
        translator.block_stack[:] = blocks


def _failing(handler: Any, known: _Break) -> Any:
    """The `handler` of an instruction, with the error of `known` in place of a trace."""

    def fail(*_: Any) -> NoReturn:
        known.count("add_to_stats")
        raise known.error

    if not known.here:
        return fail
    cells = zip(handler.__code__.co_freevars, handler.__closure__, strict=True)
    closure = tuple(CellType(fail) if name == _TRACES else cell for name, cell in cells)
    return FunctionType(handler.__code__, handler.__globals__, closure=closure)


_known = _breaks is not None and _TRACES in _breaks.co_freevars
_parts = (
    attribute(_inlining, _MAY_BREAK, _theirs_may, _may_break),
    attribute(InstructionTranslatorBase, _LOG, _theirs_log, _log),
    attribute(convert_frame, _TRANSLATOR, _theirs_translator, _translator),
)
foreseen_breaks = together(*(_parts if _known and _theirs_may and _theirs_log else ()), before=_begin)
