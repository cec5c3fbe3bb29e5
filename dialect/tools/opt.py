"""`bascule-opt`: `mlir-opt` for Bascule. Reads IR, runs passes in the order given, prints IR.

bascule-opt file.mlir --fold-views --form-kernels=max-reads=32 --canonicalize
bascule-opt --pass-pipeline='builtin.module(fold-views,canonicalize)' < file.mlir
bascule-opt program.mlir --to-triton --emit=sass-report --target=sm_90
"""

import json
import sys
from importlib import metadata
from itertools import zip_longest

from ..errors import UserError
from ..failures.reproducers import taken_from
from ..ir import context
from ..mlir import ir
from ..printing.forms import printed
from ..remarks.attribute import remarks
from ..remarks.record import Remark, chosen
from ..steering.asking import steered_by
from .bytecode import bytecode_of, read_ir
from .command import command
from .command_line import USAGE, Arguments, parse_arguments, writable
from .diagnostics import Collector, as_diagnostic, verify
from .listing import dialects, help_on, pass_list
from .output import write
from .parsing import chunks, is_bare, parse


def run_chunk(text: str, arguments: Arguments, path: str = "-") -> tuple[str, Collector, list[Remark]]:
    """Parses one chunk of input and runs the passes: (printed IR, or what is emitted of it; diagnostics; remarks).

    `path` is what locations name: the file whose whole text the chunk is, or "-".
    """
    collector, out, said = Collector(), "", []
    ctx = context(unregistered="allow-unregistered-dialect" in arguments.flags)
    if "mlir-disable-threading" in arguments.flags:
        ctx.enable_multithreading(False)
    with ctx, collector.collecting(ctx), steered_by(arguments.hooks):
        bare = "no-implicit-module" in arguments.flags and is_bare(text, path)
        module = parse(text, path)
        if "verify-roundtrip" in arguments.flags:
            _check_roundtrip(module)
        verified = True  # by the parser, and after each pass
        for pipeline in arguments.pipelines():
            if "dump-pass-pipeline" in arguments.flags:
                print(pipeline, file=sys.stderr)
            pipeline.run(module, verify=arguments.verify_each, observers=arguments.observers, checked=verified)
            verified = arguments.verify_each
        said = chosen(remarks(module), arguments.remark_passes, arguments.remark_functions)
        if arguments.emitter is not None:
            return arguments.emitter(module, arguments.target), collector, said
        if {"remarks", "verify-diagnostics"} <= arguments.flags:
            collector.found += map(as_diagnostic, said)
        out = printed(module, {"assume_verified": verified, **arguments.printing}, bare=bare)
    return out, collector, said


def _check_roundtrip(module: ir.Module) -> None:
    """Raises `UserError` where the text of `module`, parsed again, prints otherwise."""
    for form, generic in (("custom", False), ("generic", True)):
        first = module.operation.get_asm(print_generic_op_form=generic, enable_debug_info=True)
        with context(
            unregistered=module.context.allow_unregistered_dialects
        ):  # a resource gets another name in that of the module
            second = ir.Module.parse(first).operation.get_asm(print_generic_op_form=generic, enable_debug_info=True)
        lines = zip_longest(first.split("\n"), second.split("\n"), fillvalue="")
        for number, (line, again) in enumerate(lines, 1):
            if line != again:
                message = f"line {number} of its {form} form is printed as '{again}' after a roundtrip, not as '{line}'"
                raise UserError(message, location="--verify-roundtrip")


def version() -> str:
    """The versions of Bascule and of the MLIR that it runs on."""
    return f"bascule-opt {metadata.version('bascule')}, MLIR of torch-mlir {metadata.version('torch-mlir')}"


@command("bascule-opt")
def main(argv: list[str] | None = None) -> int:
    """The command; returns its exit status: 0, or 1 when something failed or a diagnostic was not as expected."""
    argv = sys.argv[1:] if argv is None else argv
    if {"-h", "-help", "--help"} & set(argv):
        write(f"{USAGE}\n")
        return 0
    try:
        arguments = parse_arguments(argv)
        if "version" in arguments.flags:
            write(f"{version()}\n")
            return 0
        if "list-passes" in arguments.flags:
            write("".join(f"{line}\n" for line in pass_list()))
            return 0
        if "show-dialects" in arguments.flags:
            write(f"Available Dialects: {', '.join(dialects())}\n")
            return 0
        if arguments.help:
            write(f"{help_on(arguments.help)}\n")
            return 0
        if arguments.output != "-":
            writable(arguments.output, "-o")
        text = read_ir(arguments.path, unregistered="allow-unregistered-dialect" in arguments.flags)
        if "run-reproducer" in arguments.flags:
            text = _reproducing(text, arguments)
    except UnicodeDecodeError as error:
        print(f"bascule-opt: '{arguments.path}' is not text: {error}", file=sys.stderr)
        return 1
    except UserError as error:
        print(f"bascule-opt: {error}", file=sys.stderr)
        return 1
    return _process(text, arguments)


def _reproducing(text: str, arguments: Arguments) -> str:
    """The module of a reproducer, whose passes `arguments` are to follow. Raises `UserError` where `text` is none."""
    text, reproducer = taken_from(text)
    if reproducer is None:
        hint = "it ends with {-# external_resources: { mlir_reproducer: { pipeline: .. } } #-}"
        raise UserError("there is no reproducer's pipeline in the file", location=arguments.path, hint=hint)
    arguments.follow(reproducer)
    return text


def _process(text: str, arguments: Arguments) -> int:
    checking = "verify-diagnostics" in arguments.flags
    printouts, recorded, failed = [], list[Remark](), False
    for chunk, first_line in (
        chunks(text, arguments.separator) if "split-input-file" in arguments.flags else [(text, 1)]
    ):
        parts = {"split-input-file", "run-reproducer"} & arguments.flags  # what is parsed is not the whole file
        out, collector, said = run_chunk(chunk, arguments, "-" if parts else arguments.path)
        if checking:
            try:
                only = arguments.expected_only
                complaints = verify(chunk, collector.found, arguments.path, first_line, expected_only=only)
            except UserError as error:
                complaints = [str(error)]
            failed |= bool(complaints)
            print(*complaints, sep="\n", end="\n" if complaints else "", file=sys.stderr)
            continue
        failed |= collector.failed
        before = None
        for diagnostic in collector.found:
            placed = diagnostic.in_file(arguments.path, first_line)
            shown = str(placed) if placed.source == before else placed.with_excerpt(arguments.path, text)
            print(shown, file=sys.stderr)
            before = placed.source
        if "remarks" in arguments.flags:
            for remark in map(as_diagnostic, said):
                placed = remark.in_file(arguments.path, first_line)
                print(placed if placed.source else f"remark: {placed.message}", file=sys.stderr)
        recorded += said
        if not collector.failed:
            printouts.append(out)
    if arguments.remark_file is not None:
        write("".join(f"{json.dumps(remark.to_json())}\n" for remark in recorded), str(arguments.remark_file))
    if arguments.reports:
        print(*arguments.reports, sep="\n", file=sys.stderr)
    if not checking and not (failed and not printouts):
        result = "\n// -----\n\n".join(text.rstrip("\n") + "\n" for text in printouts)
        write(bytecode_of(result) if "emit-bytecode" in arguments.flags else result, arguments.output)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
