"""The command line of `bascule-opt`, taken apart: `mlir-opt`'s habits, over our passes and MLIR's."""

import os
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .. import passes
from ..errors import UserError
from ..failures.reproducers import LocalReproducer, Reproducer
from ..passes.pipeline import Observer
from ..printing.forms import PRETTY
from ..steering.hooks import Hooks
from ..steering.loading import load_hooks
from . import emitters
from .emitters import Emitter
from .instrument import Debug, PrintIR, Statistics, Timing
from .parsing import SEPARATOR
from .structural_diff import PrintDifference

USAGE = """usage: bascule-opt [input.mlir | -] [options] [--<pass>[=option=value,...]]...

passes
  --pass-pipeline=TEXT          run this pipeline: 'builtin.module(a,b{option=value})'
  --<pass>[=k=v[,k=v]]          run one pass, of Bascule or of MLIR; several run in the order given
  --load-pass=MODULE:CLASS      add a pass of yours; then it can be named like any other. A file does too: path/to/file.py:CLASS
  --load-hooks=MODULE:CLASS     let a plug-in of yours take decisions of passes; a file does too
  --dump-pass-pipeline          print the pipeline that is run, as text that --pass-pipeline takes
  --list-passes                 print the passes, of MLIR too, their options and what they do
  --help=PASS                   print what one pass does, and its options
  --show-dialects               print the dialects that can be parsed
input and output
  -o FILE                       write there (default: standard output)
  --split-input-file[=MARKER]   treat the parts between lines that begin with the marker ('// -----') one by one
  --verify-diagnostics[=all|only-expected]
                                check the diagnostics against 'expected-error @+1 {{text}}' comments; print no IR; only-expected: others may be
                                there too
  --verify-each[=true|false]    verify after each pass (default: true)
  --verify-roundtrip            check that what is printed of the input parses to the same
  --allow-unregistered-dialect  accept operations of dialects that are not loaded
  --no-implicit-module          take one operation, a module or another, and print no module around it
  --emit=ttgir|ptx|sass-report  print what Triton makes of the kernels that --to-triton left; sass-report: registers, shared memory, spills
  --target=ARCH                 for this GPU (default: sm_90); none is needed
  --emit-bytecode               write MLIR's bytecode; files of it are read as text is
how IR is printed
  --pretty                      values named by their operators, sizes in the heads of loops, no aliases, a schedule in one line with the
                                chosen form first; it parses back, or says at its top that it does not
  --mlir-print-op-generic, --mlir-print-debuginfo, --mlir-pretty-debuginfo, --mlir-print-local-scope, --mlir-print-skip-regions,
  --mlir-print-assume-verified, --mlir-use-nameloc-as-prefix
  --mlir-elide-elementsattrs-if-larger=N, --mlir-elide-resource-strings-if-larger=N
looking inside
  --mlir-print-ir-before-all, --mlir-print-ir-after-all
  --mlir-print-ir-before=PASS[,PASS], --mlir-print-ir-after=PASS[,PASS]
  --mlir-print-ir-after-change  print only after passes that changed the IR
  --mlir-print-ir-after-failure print the IR that a pass that failed left
  --print-ir-diff               print what each pass changed, by structure: ops are matched by name and location, not by lines
  --debug-only=PASS[,PASS]      what these passes tell, change and decide against
  --mlir-timing                 the time of each pass
  --mlir-pass-statistics        how many operations there are after each pass, by name, where that changed
  --mlir-disable-threading      run MLIR's own passes on one thread
  --remarks                     what passes decided, about which operators, why, and at what cost; with --verify-diagnostics, 'expected-remark'
  --remarks-filter=PASS[,PASS], --remarks-functions=NAME[,NAME]   the remarks of these passes; those in these graphs, or of these kernels
  --remarks-output-file=FILE    write them there, a JSON record a line
  --mlir-pass-pipeline-crash-reproducer=FILE
                                where a pass fails or ends the process: the IR just before it, and that pass
  --run-reproducer              run the pipeline that stands at the end of the input, as the above leaves it
  --version"""

FLAGS = {
    *("split-input-file", "verify-diagnostics", "verify-roundtrip", "allow-unregistered-dialect", "no-implicit-module"),
    *("mlir-timing", "mlir-pass-statistics", "mlir-disable-threading", "remarks", "run-reproducer", "emit-bytecode"),
    *("dump-pass-pipeline", "list-passes", "show-dialects", "version", "print-ir-diff"),
}
# How IR is printed: the flag, and the parameter of `printed` that it sets.
PRINTING = {
    "pretty": PRETTY,
    "mlir-print-op-generic": "print_generic_op_form",
    "mlir-print-debuginfo": "enable_debug_info",
    "mlir-pretty-debuginfo": "pretty_debug_info",
    "mlir-print-local-scope": "use_local_scope",
    "mlir-print-skip-regions": "skip_regions",
    "mlir-print-assume-verified": "assume_verified",
    "mlir-use-nameloc-as-prefix": "use_name_loc_as_prefix",
}
_LOCATIONS = ("enable_debug_info", "pretty_debug_info")
LIMITS = {
    "mlir-elide-elementsattrs-if-larger": "large_elements_limit",
    "mlir-elide-resource-strings-if-larger": "large_resource_limit",
}
MOMENTS = {
    "mlir-print-ir-before-all": "before",
    "mlir-print-ir-after-all": "after",
    "mlir-print-ir-after-change": "change",
    "mlir-print-ir-after-failure": "failure",
}
MOMENTS_OF_PASSES = {"mlir-print-ir-before": "before", "mlir-print-ir-after": "after"}
DEBUG, REPRODUCER, REMARKS_FILE = "debug-only", "mlir-pass-pipeline-crash-reproducer", "remarks-output-file"
LOADS = ("load-pass", "load-hooks")
REMARKS = {"remarks-filter": "remark_passes", "remarks-functions": "remark_functions"}  # the field that each adds to
WITH_VALUE = {
    *(*LIMITS, *MOMENTS_OF_PASSES, *LOADS, *REMARKS, DEBUG, REPRODUCER, REMARKS_FILE),
    *("emit", "help", "pass-pipeline", "target"),
}
NOT_EMPTY = WITH_VALUE - {"pass-pipeline"}
VALUES = {"": True, "true": True, "1": True, "false": False, "0": False}  # of a switch
SWITCHES = {*FLAGS, *PRINTING, *MOMENTS, "verify-each"}


@dataclass
class Arguments:
    """The command line, taken apart."""

    path: str = "-"
    output: str = "-"
    stages: list[tuple[str, str]] = field(default_factory=list)  # pipeline texts in order, and the flags they came by
    observers: list[Observer] = field(default_factory=list)
    reports: list[Timing | Statistics] = field(default_factory=list)  # the observers that are printed at the end
    help: str = ""  # the pass to tell of
    reproducer: Path | None = None  # where to write one
    emitter: Emitter | None = None  # prints the result; None prints IR
    target: str = ""
    hooks: Hooks | None = None  # what takes decisions of passes
    verify_each: bool = True
    separator: str = SEPARATOR  # of the parts of the input
    expected_only: bool = False  # whether diagnostics that nobody expects are let pass
    remark_passes: list[str] = field(default_factory=list)  # whose remarks are shown; none: all
    remark_functions: list[str] = field(default_factory=list)
    remark_file: Path | None = None  # where their records go
    flags: set[str] = field(default_factory=set)
    printing: dict[str, Any] = field(default_factory=dict)  # parameters of `printed`

    def pipelines(self) -> list[passes.Pipeline]:
        """The passes to run. Raises `UserError` for what is no pass, by the flag that names it."""
        return [_parsed(text, flag) for text, flag in self.stages]

    def follow(self, reproducer: Reproducer) -> None:
        """Has the passes of a reproducer run first, with its hooks where no others are given. Raises `UserError` for what is no pass."""
        for spec in reproducer.load_pass:
            passes.load(spec)
        if reproducer.load_hooks and self.hooks is None:
            self.hooks = load_hooks(reproducer.load_hooks)
        self.stages.insert(0, (reproducer.pipeline, ""))
        self.verify_each &= reproducer.verify_each
        self.pipelines()


def parse_arguments(argv: list[str]) -> Arguments:
    """Raises `UserError` for a flag that is neither an option nor a pass."""
    arguments, inputs, moments = Arguments(), [], []
    words = iter(argv)
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or word == "-":
            inputs.append(word)
        elif name == "o":
            arguments.output = value if equals else next(words, "")
            if not arguments.output:
                raise UserError("-o needs a file name")
        elif name in WITH_VALUE:
            given = value if equals else next(words, None)
            if not given and (given is None or name in NOT_EMPTY):
                raise UserError("a value is missing", location=f"--{name}", hint=f"--{name}=...")
            if name in MOMENTS_OF_PASSES or name == DEBUG:
                moments.append((name, given))
            else:
                _option(arguments, name, given)
        elif name in SWITCHES:
            _switch(arguments, name, value)
        else:
            options = _options_of(name, value)
            arguments.stages.append((f"{name}{{{options}}}" if options else name, f"--{name}"))
    if len(inputs) > 1:
        raise UserError(f"one input file, got {len(inputs)}: {' '.join(inputs)}")
    arguments.path = inputs[0] if inputs else "-"
    arguments.pipelines()  # an unknown pass is refused before anything is read, and after all are loaded
    for name, value in moments:
        of = _pass_names(name, value)
        arguments.observers.append(
            Debug(of) if name == DEBUG else PrintIR(MOMENTS_OF_PASSES[name], of, arguments.printing)
        )
    if arguments.reproducer is not None:
        arguments.observers.insert(0, LocalReproducer(arguments.reproducer, arguments.verify_each, arguments.hooks))
    if arguments.target and arguments.emitter is None:
        raise UserError("there is nothing to emit for a target", location="--target", hint="give --emit too")
    for name, report in (("mlir-timing", Timing), ("mlir-pass-statistics", Statistics)):
        if name in arguments.flags:
            arguments.reports.append(report())
    arguments.observers += arguments.reports
    if "print-ir-diff" in arguments.flags:
        arguments.observers.append(PrintDifference())
    _check_form(arguments)
    return arguments


def _options_of(name: str, value: str) -> str:
    """The options in the flag of a pass as a pipeline spells them: a comma ends one where another option follows; others are in lists."""
    known = "|".join(map(re.escape, passes.option_names(name))) or "$"
    commas = rf"(?P<quoted>\"[^\"]*\"|'[^']*')|,+(?=\s|$|[\w-]+=|(?:{known})(?:[\s,]|$))"
    return re.sub(commas, lambda match: match["quoted"] or " ", value).strip()


def _check_form(arguments: Arguments) -> None:
    """Raises `UserError` for forms of output that do not go together."""
    bytecode, printing = "emit-bytecode" in arguments.flags, arguments.printing
    if printing.get(PRETTY) and "no-implicit-module" in arguments.flags:
        raise UserError("this form is of a module", location="--pretty", hint="without --no-implicit-module")
    if printing.get(PRETTY) and (bytecode or any(map(printing.get, _LOCATIONS))):
        raise UserError("this form is text, and has no locations", location="--pretty")
    if bytecode:
        if arguments.emitter is not None or "split-input-file" in arguments.flags:
            raise UserError(
                "bytecode is of one module", location="--emit-bytecode", hint="without --emit and --split-input-file"
            )
        printing["enable_debug_info"] = True


def _option(arguments: Arguments, name: str, value: str) -> None:
    if name == "emit":
        arguments.emitter = emitters.find(value)
    elif name == "target":
        arguments.target = value
    elif name == "load-pass":
        passes.load(value)
    elif name == "help":
        arguments.help = value
    elif name == REPRODUCER:
        arguments.reproducer = writable(value, f"--{name}")
    elif name == "load-hooks":
        arguments.hooks = load_hooks(value)
    elif name == "pass-pipeline":
        arguments.stages.append((value, ""))
    elif name in REMARKS:
        names = _pass_names(name, value) if name == "remarks-filter" else value.split(",")
        getattr(arguments, REMARKS[name]).extend(names)
        arguments.flags.add("remarks")
    elif name == REMARKS_FILE:
        arguments.remark_file = writable(value, f"--{name}")
    elif value.isdecimal() and len(value) < 19:  # MLIR's integers
        arguments.printing[LIMITS[name]] = int(value)
    else:
        raise UserError(f"'{value}' is not a number of elements", location=f"--{name}")


def _switch(arguments: Arguments, name: str, value: str) -> None:
    if name == "split-input-file" and value not in VALUES:
        arguments.separator, value = value, ""
    elif name == "verify-diagnostics" and value in ("all", "only-expected"):
        arguments.expected_only, value = value == "only-expected", ""
    if value not in VALUES:
        raise UserError(f"'{value}' is neither true nor false", location=f"--{name}")
    on = VALUES[value]
    if name == "verify-each":
        arguments.verify_each = on
    elif name in PRINTING:
        arguments.printing[PRINTING[name]] = on
    elif name in MOMENTS:
        arguments.observers += [PrintIR(MOMENTS[name], None, arguments.printing)] if on else []
    else:
        arguments.flags |= {name} if on else set()


def _pass_names(flag: str, value: str) -> list[str]:
    names = value.split(",")
    for name in names:
        if not passes.is_known(name):
            raise UserError(f"'{name}' is not a pass", location=f"--{flag}", hint=f"{_alike(name)}--list-passes")
    return names


def _parsed(text: str, flag: str) -> passes.Pipeline:
    try:
        return passes.Pipeline.parse(text)
    except UserError as error:
        name = flag.lstrip("-")
        if not flag:
            raise
        if passes.is_known(name):
            raise UserError(error.message, location=flag, hint=error.hint) from None
        hint = f"{_alike(name)}-h prints the options, --list-passes the passes"
        raise UserError(f"'{flag}' is neither an option nor a pass of Bascule or of MLIR", hint=hint) from None


def _alike(name: str) -> str:
    known = [*passes.names(), "canonicalize", "cse", *SWITCHES, *WITH_VALUE]
    found = get_close_matches(name, known, n=1)
    return f"did you mean --{found[0]}? " if found else ""


def writable(path: str, location: str) -> Path:
    """A file that can be written. Raises `UserError` at the option `location` where it cannot."""
    exists, folder = os.path.exists(path), os.path.dirname(path) or "."
    stays = exists and not os.path.isfile(path)  # a device, a pipe: nothing else is put in its place
    needed = [path] if stays else [path, folder] if exists else [folder]
    if not path or os.path.isdir(path) or not all(os.access(each, os.W_OK) for each in needed):
        raise UserError(f"cannot write '{path}'", location=location)
    return Path(path)
