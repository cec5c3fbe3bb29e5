"""`bascule-opt`: `mlir-opt` for Bascule. Reads IR, runs passes in the order given, prints IR.

bascule-opt file.mlir --fold-views --form-kernels=max-reads=32 --canonicalize
bascule-opt --pass-pipeline='builtin.module(fold-views,canonicalize)' < file.mlir
bascule-opt program.mlir --to-triton --emit=sass-report --target=sm_90
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .. import passes
from ..errors import UserError
from ..ir import context
from ..ir.functions import remarks
from ..passes.pipeline import Observer
from . import emitters
from .diagnostics import Collector, verify
from .emitters import Emitter
from .instrument import PrintIR, Timing
from .parsing import parse

USAGE = """usage: bascule-opt [input.mlir | -] [options] [--<pass>[=option=value,...]]...

passes
  --pass-pipeline=TEXT          run this pipeline: 'builtin.module(a,b{option=value})'
  --<pass>[=k=v[,k=v]]          run one pass, of Bascule or of MLIR; several run in the order given
  --load-pass=MODULE:CLASS      add a pass of yours; then it can be named like any other
  --list-passes                 print the passes, their options and what they do
  --show-dialects               print the dialects that can be parsed
input and output
  -o FILE                       write there (default: standard output)
  --split-input-file            treat the parts between '// -----' lines one by one
  --verify-diagnostics          check the diagnostics against 'expected-error @+1 {{text}}' comments; print no IR
  --verify-each[=true|false]    verify after each pass (default: true)
  --allow-unregistered-dialect  accept operations of dialects that are not loaded
  --mlir-print-op-generic, --mlir-print-debuginfo
  --emit=ttgir|ptx|sass-report  print what Triton makes of the kernels that --to-triton left; sass-report: registers, shared memory, spills
  --target=ARCH                 for this GPU (default: sm_90); none is needed
looking inside
  --mlir-print-ir-before-all, --mlir-print-ir-after-all
  --mlir-print-ir-before=PASS[,PASS], --mlir-print-ir-after=PASS[,PASS]
  --mlir-timing                 the time of each pass
  --remarks                     what passes decided against, and why"""

SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)


@dataclass
class Arguments:
    """The command line, taken apart."""

    path: str = "-"
    output: str = "-"
    stages: list[str] = field(default_factory=list)  # pipeline texts, in order
    observers: list[Observer] = field(default_factory=list)
    timing: Timing | None = None
    emitter: Emitter | None = None  # prints the result; None prints IR
    target: str = ""
    flags: set[str] = field(default_factory=set)


# The bindings have no list of dialects: these are the ones that the IR of Bascule and its lowerings use.
DIALECTS = (
    *("affine", "arith", "bascule", "bufferization", "builtin", "cf", "func", "gpu", "index", "linalg", "llvm", "math"),
    *("memref", "omp", "scf", "tensor", "torch", "ub", "vector"),
)

FLAGS = {
    "split-input-file",
    "verify-diagnostics",
    "allow-unregistered-dialect",
    "mlir-print-op-generic",
    "mlir-print-debuginfo",
    "mlir-timing",
    "remarks",
    "list-passes",
    "show-dialects",
}


def parse_arguments(argv: list[str]) -> Arguments:
    """Raises `UserError` for a flag that is neither an option nor a pass."""
    arguments, inputs = Arguments(), []
    words = iter(argv)
    for word in words:
        if word == "-o":
            arguments.output = next(words, "")
            if not arguments.output:
                raise UserError("-o needs a file name")
        elif not word.startswith("-") or word == "-":
            inputs.append(word)
        else:
            _flag(arguments, *word.lstrip("-").partition("=")[::2])
    if len(inputs) > 1:
        raise UserError(f"one input file, got {len(inputs)}: {' '.join(inputs)}")
    arguments.path = inputs[0] if inputs else "-"
    for stage in arguments.stages:
        passes.Pipeline.parse(stage)  # an unknown pass is refused before anything is read, and after all are loaded
    for printing in [observer for observer in arguments.observers if isinstance(observer, PrintIR)]:
        for name in printing.names or ():
            if not passes.is_known(name):
                raise UserError(f"'{name}' is not a pass", location=f"--mlir-print-ir-{printing.when}")
    if arguments.target and arguments.emitter is None:
        raise UserError("there is nothing to emit for a target", location="--target", hint="give --emit too")
    if "mlir-timing" in arguments.flags:
        arguments.timing = Timing()
        arguments.observers.append(arguments.timing)
    return arguments


def _flag(arguments: Arguments, name: str, value: str) -> None:
    if name in FLAGS:
        arguments.flags |= {name} if _switch(name, value) else set()
    elif name in ("mlir-print-ir-before-all", "mlir-print-ir-after-all"):
        arguments.observers += [PrintIR(name.split("-")[3])] if _switch(name, value) else []
    elif name in ("mlir-print-ir-before", "mlir-print-ir-after"):
        arguments.observers.append(PrintIR(name.split("-")[3], value.split(",")))
    elif name == "verify-each":
        arguments.flags |= set() if _switch(name, value) else {"no-verify-each"}
    elif name == "emit":
        arguments.emitter = emitters.find(value)
    elif name == "target":
        arguments.target = value
    elif name == "load-pass":
        passes.load(value)
    elif name == "pass-pipeline":
        arguments.stages.append(value)
    else:
        options = " ".join(part for part in re.split(r"[,\s]+", value) if part)
        arguments.stages.append(f"{name}{{{options}}}" if options else name)


def _switch(name: str, value: str) -> bool:
    """The value of a flag that is on or off."""
    values = {"": True, "true": True, "1": True, "false": False, "0": False}
    if value not in values:
        raise UserError(f"'{value}' is neither true nor false", location=f"--{name}")
    return values[value]


def run_chunk(text: str, arguments: Arguments) -> tuple[str, Collector, list[str]]:
    """Parses one chunk of input and runs the passes: (printed IR, or what is emitted of it; diagnostics; remarks)."""
    collector, printed, said = Collector(), "", []
    ctx = context()
    ctx.allow_unregistered_dialects = "allow-unregistered-dialect" in arguments.flags
    with ctx, collector.collecting(ctx):
        module = parse(text)
        for stage in arguments.stages:
            passes.Pipeline.parse(stage).run(
                module, verify="no-verify-each" not in arguments.flags, observers=arguments.observers
            )
        said = remarks(module)
        if arguments.emitter is not None:
            return arguments.emitter(module, arguments.target), collector, said
        printed = module.operation.get_asm(
            print_generic_op_form="mlir-print-op-generic" in arguments.flags,
            enable_debug_info="mlir-print-debuginfo" in arguments.flags,
        )
    return printed, collector, said


def list_passes() -> str:
    """Each pass with its options and the first line of what it does."""
    lines = []
    for name in passes.names():
        try:
            cls = passes.find(name)
        except UserError as error:  # of another package: the others are listed all the same
            lines.append(f"  --{name:24} {error}")
            continue
        assert cls is not None
        lines.append(f"  --{name:24} {(cls.__doc__ or '').strip().splitlines()[0]}")
        lines += [f"      {key}={default!r}" for key, default in cls.option_defaults().items()]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """The command; returns its exit status: 0, or 1 when something failed or a diagnostic was not as expected."""
    argv = sys.argv[1:] if argv is None else argv
    if {"-h", "--help"} & set(argv):
        print(USAGE)
        return 0
    try:
        arguments = parse_arguments(argv)
        if "list-passes" in arguments.flags:
            print(list_passes())
            return 0
        if "show-dialects" in arguments.flags:
            ctx = context()
            ctx.load_all_available_dialects()
            print("Available Dialects: " + ", ".join(name for name in DIALECTS if ctx.is_dialect_loaded(name)))
            return 0
        text = sys.stdin.read() if arguments.path == "-" else Path(arguments.path).read_text()
    except (UserError, OSError) as error:
        print(f"bascule-opt: {error}", file=sys.stderr)
        return 1
    return _process(text, arguments)


def _process(text: str, arguments: Arguments) -> int:
    checking = "verify-diagnostics" in arguments.flags
    chunks, line = [], 1
    for chunk in SEPARATOR.split(text) if "split-input-file" in arguments.flags else [text]:
        chunks.append((chunk, line))
        line += chunk.count("\n")
    printed, failed = [], False
    for chunk, first_line in chunks:
        out, collector, said = run_chunk(chunk, arguments)
        if checking:
            try:
                complaints = verify(chunk, collector.found, first_line)
            except UserError as error:
                complaints = [str(error)]
            failed |= bool(complaints)
            print(*complaints, sep="\n", end="\n" if complaints else "", file=sys.stderr)
            continue
        failed |= collector.failed
        for diagnostic in collector.found:
            print(diagnostic.in_file(arguments.path, first_line), file=sys.stderr)
        if "remarks" in arguments.flags:
            print(*(f"remark: {remark}" for remark in said), sep="\n", file=sys.stderr)
        if not collector.failed:
            printed.append(out)
    if arguments.timing is not None:
        print(arguments.timing, file=sys.stderr)
    if not checking and not (failed and not printed):
        result = "\n// -----\n\n".join(text.rstrip("\n") + "\n" for text in printed)
        if arguments.output == "-":
            sys.stdout.write(result)
        else:
            Path(arguments.output).write_text(result)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
