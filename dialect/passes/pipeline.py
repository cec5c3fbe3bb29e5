"""Pipelines: an ordered list of passes, spelled as MLIR spells it, ours and upstream's mixed.

    builtin.module(torch-to-bascule,canonicalize,cse,form-kernels{max-reads=32},func.func(cse))

Our passes are run by this module; what stands between two of them is handed to MLIR's PassManager as text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby

from ..contract.module import check_contract
from ..errors import UserError
from ..failures import guards
from ..failures.culprits import blame, called, is_foreign, subject_of
from ..last_words import named
from ..mlir import ir, passmanager
from . import registry
from .base import Pass
from .kept_checks import checks_kept
from .kept_terms import LOWERS, terms_kept
from .stages import check_signatures, require
from .unknown_ops import check_known
from .upstream import defaults, refusal


@dataclass(frozen=True)
class UpstreamPass:
    """A pass of MLIR itself, by its text; `nest`: the ops that it runs on, outermost first, where that is not the module."""

    text: str
    nest: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return re.match(r"[\w.\-]*", self.text)[0]  # type: ignore[index]

    def spelling(self) -> str:
        return _nested([self])

    def run(self, module: ir.Module) -> None:
        check_known(self.name, module)
        manager = passmanager.PassManager.parse(f"builtin.module({self.spelling()})")
        folds = self.name != "cse"
        kept = terms_kept(module) if folds and self.name not in LOWERS else nullcontext()
        with checks_kept(module) if folds else nullcontext(), kept:
            manager.run(module.operation)


guards.install()

Stage = Pass | UpstreamPass
# Called around a stage: ("before", "after" or, where it raised, "failure"; stage; module).
Observer = Callable[[str, Stage, ir.Module], None]


@dataclass(frozen=True)
class Pipeline:
    """Passes in the order they run; `str()` gives the text that `parse` takes."""

    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        return f"builtin.module({_nested(self.stages)})"

    def run(
        self,
        module: ir.Module,
        *,
        verify: bool | None = None,
        observers: Sequence[Observer] = (),
        subject: str | None = None,
        checked: bool = False,
    ) -> None:
        """Runs the passes in order on `module`; `verify`: check the IR after each of ours (MLIR checks after its own); None: after those from
        outside. `subject` is what `module` is called where the process dies; None: where it stands. `checked`: the contract of the dialect
        was checked since `module` changed.

        Raises `UserError` for a module that a pass does not take. What a pass raises knows which it was: `failures.culprits`.
        """
        with module.context:
            if not checked:
                check_contract(module)
            check_signatures(module)
            name = subject or subject_of(module)
            kinds: dict[ir.Attribute, list[str]] = {}
            verified = 0  # how many passes had run when the IR was last verified
            for number, stage in enumerate(self.stages):
                for observe in observers:
                    observe("before", stage, module)
                if isinstance(stage, Pass):
                    require(stage, module, kinds)
                if is_foreign(stage):
                    module.context.load_all_available_dialects()
                checks = is_foreign(stage) if verify is None else verify
                guard = guards.watched() if is_foreign(stage) else nullcontext()
                with self._blamed(number, module, observers, verified), guard:
                    named(stage.run, called(stage), name)(module)
                with self._blamed(number, module, observers, verified, left=True):
                    if checks:
                        named(_verify, f"verification after {called(stage)}", name)(module)
                if checks or isinstance(stage, UpstreamPass):
                    verified = number + 1
                for observe in observers:
                    observe("after", stage, module)

    @contextmanager
    def _blamed(
        self, number: int, module: ir.Module, observers: Sequence[Observer], verified: int, *, left: bool = False
    ) -> Iterator[None]:
        """Has what is raised inside know that pass `number` was at work, or had `left` what is looked at, and tells the observers."""
        try:
            yield
        except Exception as error:
            blame(error, self.stages, number, module, left=left, verified=verified)
            for observe in observers:
                observe("failure", self.stages[number], module)
            raise

    @staticmethod
    def parse(text: str) -> "Pipeline":
        """Parses `builtin.module(a,b{option=value},...)`; the outer `builtin.module(...)` may be left out.

        Raises `UserError` with the column for text that does not parse and for names nobody knows, before anything runs.
        """
        return Pipeline(tuple(_stages(text)))


def _verify(module: ir.Module) -> None:
    module.operation.verify()
    check_contract(module)


def _nested(stages: Sequence[Stage], depth: int = 0) -> str:
    """The spelling of passes that stand inside of `depth` ops: neighbours that run on ops of one name share its brackets."""
    parts = []
    for op, group in groupby(stages, lambda stage: getattr(stage, "nest", ())[depth : depth + 1]):
        inner = list(group)
        if op:
            parts.append(f"{op[0]}({_nested(inner, depth + 1)})")
        else:
            parts += [stage.text if isinstance(stage, UpstreamPass) else stage.spelling() for stage in inner]
    return ",".join(parts)


DEEPEST = 100  # brackets in brackets
_BRACKETS = re.compile(r"\"[^\"]*\"|'[^']*'|[(){},]")  # what is in quotes is the value of an option
# What stands around passes over the whole module.
_MODULE = re.compile(r"(?:builtin\.module|any)\s*\((.*)\)", re.DOTALL)


def _stages(text: str) -> Iterator[Stage]:
    for part, column in _split(text, 0):
        outer = _MODULE.fullmatch(part)
        if outer is None:
            yield from _stage(part, column)
        else:
            start = column + outer.start(1)
            for inner, at in _split(outer[1], start):
                yield from _stage(inner, at)


def _split(text: str, start: int) -> list[tuple[str, int]]:
    """The parts of `text` between top-level commas, with their columns."""
    parts, depth, begin = [], 0, 0
    for match in _BRACKETS.finditer(text):
        i, char = match.start(), match[0]
        if char in "({":
            depth += 1
            if depth > DEEPEST:
                raise UserError("the pipeline is nested too deeply", location=f"pipeline:{start + i + 1}")
        elif char in ")}":
            depth -= 1
            if depth < 0:
                raise UserError(f"unbalanced '{char}' in pipeline", location=f"pipeline:{start + i + 1}")
        elif char == "," and depth == 0:
            parts.append((text[begin:i], begin))
            begin = i + 1
    if depth:
        raise UserError("the pipeline ends inside a bracket", location=f"pipeline:{start + len(text) + 1}")
    parts.append((text[begin:], begin))
    if text.strip() == "":
        return []
    return [(part.strip(), start + begin + len(part) - len(part.lstrip())) for part, begin in parts]


def _stage(text: str, column: int) -> Iterator[Stage]:
    """The passes of a part of a pipeline: one, or those that are nested in it."""
    location = f"pipeline:{column + 1}"
    match = re.fullmatch(r"([\w.\-]+)\s*(?:\{(.*)\})?", text, re.DOTALL)
    cls = registry.find(match[1]) if match else None
    if cls is not None and match is not None:
        yield cls.from_options(_options(match[2] or "", location), location)
        return
    if not text:
        raise UserError("a pass name is missing", location=location)
    refused = refusal(text)
    if refused is not None:
        name = match[1] if match else text
        if match and match[2] is not None and is_known(name):
            raise UserError(f"the pass '{name}' of MLIR does not take '{match[2]}'", location=location)
        if match and "(" not in text:
            raise UserError(
                f"'{name}' is not a pass of Bascule or of MLIR",
                location=location,
                hint=f"passes of Bascule: {', '.join(registry.names())}",
            )
        for word in re.finditer(r"[\w.\-]+", text):
            if registry.find(word[0]) is not None:
                raise UserError(
                    f"the pass '{word[0]}' takes a whole module",
                    location=f"pipeline:{column + word.start() + 1}",
                    hint=f"it stands beside, not inside, what is nested: {word[0]},func.func(cse)",
                )
        said = refused.partition("error: ")[2].partition("\n")[0]
        raise UserError(f"'{text}' does not parse: {said or refused}", location=location)
    yield from _upstream(text, location)


def _upstream(text: str, location: str, nest: tuple[str, ...] = ()) -> Iterator[UpstreamPass]:
    """The passes of a text that MLIR has parsed, each with the ops that it is nested in."""
    inner = re.fullmatch(r"([\w.\-]+)\s*\((.*)\)", text, re.DOTALL)
    if inner is None:
        yield UpstreamPass(text, nest)
        return
    if is_known(inner[1]):  # MLIR takes it for the name of an operation that there is none of, and runs nothing
        raise UserError(f"'{inner[1]}' is a pass, not an operation, and nothing is nested in it", location=location)
    for part, _ in _split(inner[2], 0):
        yield from _upstream(part, location, (*nest, inner[1]))


def is_known(name: str) -> bool:
    """Whether Bascule or MLIR has a pass `name`."""
    return registry.find(name) is not None or refusal(name) is None


def option_names(name: str) -> list[str]:
    """The options of a pass, of one of MLIR's without its lists; none of what is no pass."""
    cls = registry.find(name)
    if cls is not None:
        return list(cls.option_defaults())
    return [each.partition("=")[0] for each in defaults(name) or ()]


# A word up to a space outside of quotes and braces, as MLIR takes options apart; what is around all of a value is no part of it.
_WORD = re.compile(r"(?:\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{[^{}]*\})*\}|\S)+")
_AROUND = re.compile(r"\"([^\"]*)\"|'([^']*)'|\{(.*)\}", re.DOTALL)


def _options(text: str, location: str) -> dict[str, str]:
    options = {}
    for word in _WORD.findall(text):
        key, equals, value = word.partition("=")
        around = _AROUND.fullmatch(value)
        options[key] = (value if around is None else "".join(filter(None, around.groups()))) if equals else "true"
        if not key:
            raise UserError(f"'{word}' is not option=value", location=location)
    return options
