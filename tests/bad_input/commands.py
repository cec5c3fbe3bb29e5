"""Command lines that ask for what is not there, and files that are no inputs, functions or passes. `{}` is the folder of a case."""

import json
from typing import Any

OPT, RUN, IMPORT, REDUCE, REPORT = "bascule-opt", "bascule-run", "bascule-import", "bascule-reduce", "bascule"
RIGHT = "{}/right.mlir"

FUNCTIONS = """import torch

def f(x):
    return x.exp()

def breaks(x):
    torch._dynamo.graph_break()
    return x + 1

def raises(x):
    raise ValueError("the user's own")

def shapes(x):
    return x @ x

value = 3
"""


def reproducer(entries: str) -> str:
    return (
        f"module {{\n}}\n{{-#\n  external_resources: {{\n    mlir_reproducer: {{\n      {entries}\n    }}\n  }}\n#-}}\n"
    )


def inputs(*arguments: dict[str, Any]) -> str:
    return json.dumps({"format": 1, "seed": 0, "arguments": arguments})


FILES = {
    "functions.py": FUNCTIONS,
    "syntax.py": "def f(x:\n    return x\n",
    "zero.py": "x = 1\0\n",
    "raises.py": "raise RuntimeError('when it is read')\n",
    "passes.py": "class NoPass:\n    pass\n",
    "cut.json": '{"format": 1, "seed": 0, "arguments": [\n',
    "other.json": '{"format": 99, "seed": 0, "arguments": []}',
    "no.json": "[]",
    "dtype.json": inputs({"dtype": "f99", "sizes": [4], "strides": [1]}),
    "few.json": inputs(),
    "shape.json": inputs({"dtype": "float32", "sizes": [5], "strides": [1]}),
    "below.json": inputs({"dtype": "float32", "sizes": [-4], "strides": [1]}),
    "huge.json": inputs({"dtype": "float32", "sizes": [1 << 50], "strides": [1]}),
    "cut.pt": "PK\x03\x04",
    "reproducer.mlir": reproducer('pipeline: "builtin.module(cse)"')[:80],
    "loads.mlir": reproducer('pipeline: "builtin.module(cse)", load_pass: "nowhere:Nothing"'),
    "unknown.mlir": reproducer('pipeline: "builtin.module(nothing)"'),
    "empty.mlir": "",
    "operator.mlir": 'func.func private @f(memref<4xf32>, memref<4xf32>) attributes {bascule.extern = "aten.sin.default", '
    'bascule.out = "aten.sin.out", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}\n',
}

# name -> the command line, what its error tells
COMMANDS: dict[str, tuple[list[str], str]] = {
    # Pipelines.
    "a bracket that is not closed": ([OPT, RIGHT, "--pass-pipeline=builtin.module(cse"], "pipeline"),
    "a brace that is not closed": (
        [OPT, RIGHT, "--pass-pipeline=builtin.module(form-kernels{max-reads=4)"],
        "pipeline",
    ),
    "no name between commas": ([OPT, RIGHT, "--pass-pipeline=builtin.module(cse,,cse)"], "pipeline"),
    "a pass that is not there": ([OPT, RIGHT, "--pass-pipeline=builtin.module(form-kernel)"], "form-kernel"),
    "a pass of another operation": ([OPT, RIGHT, "--pass-pipeline=builtin.module(gpu.module(nothing))"], "nothing"),
    "an option that is not there": ([OPT, RIGHT, "--form-kernels=max-read=4"], "max-read"),
    "an option of another type": ([OPT, RIGHT, "--form-kernels=max-reads=many"], "max-reads"),
    "an option below zero": ([OPT, RIGHT, "--split-reductions=parallel=-1"], "parallel"),
    "a target that is not there": ([OPT, RIGHT, "--form-kernels=target=abacus"], "abacus"),
    "a pipeline 10,000 deep": (
        [OPT, RIGHT, "--pass-pipeline=" + "builtin.module(" * 10_000 + "cse" + ")" * 10_000],
        "pipeline",
    ),
    "100,000 passes, the last of them none": (
        [OPT, RIGHT, "--pass-pipeline=builtin.module(" + "cse," * 100_000 + "nothing)"],
        "nothing",
    ),
    "IR of an earlier stage": ([OPT, RIGHT, "--plan-memory"], "{}/right.mlir:"),
    "IR of a later stage": ([OPT, "{}/program.mlir", "--bufferize-kernels"], "{}/program.mlir:"),
    "operators of ATen of a later stage": ([OPT, "{}/operator.mlir", "--bufferize-kernels"], "{}/operator.mlir:"),
    "a seed beyond 64 bits": ([RUN, RIGHT, "--seed=99999999999999999999"], "--seed"),
    "sizes in other digits": ([RUN, RIGHT, "--shapes=s0=\u00b2"], "--shapes"),
    "a size of 5000 digits": ([RUN, RIGHT, "--shapes=s0=" + "9" * 5000], "--shapes"),
    "elements in other digits": (
        [OPT, RIGHT, "--mlir-elide-elementsattrs-if-larger=\u00b2"],
        "--mlir-elide-elementsattrs-if-larger",
    ),
    "elements beyond 64 bits": (
        [OPT, RIGHT, "--mlir-elide-elementsattrs-if-larger=" + "9" * 20],
        "--mlir-elide-elementsattrs-if-larger",
    ),
    "a reproducer to a full disk": (
        [OPT, RIGHT, "--cse", "--mlir-pass-pipeline-crash-reproducer=/dev/full"],
        "cannot write '/dev/full'",
    ),
    "a reduction into a folder": ([REDUCE, RIGHT, "--test=crash", "-o", "{}"], "-o"),
    "a time that is no number": ([REDUCE, RIGHT, "--test=crash", "--timeout=nan"], "--timeout"),
    "a time below zero": ([REDUCE, RIGHT, "--test=crash", "--timeout=-1"], "--timeout"),
    "a time without an end": ([REDUCE, RIGHT, "--test=crash", "--timeout=inf"], "--timeout"),
    "an import into a folder": ([IMPORT, "{}/functions.py:f", "--inputs=f32[4]", "-o", "{}"], "-o"),
    "an import from a file of IR": ([IMPORT, f"{RIGHT}:f", "--inputs=f32[4]"], "right.mlir: the file fails"),
    "a report into a folder": ([REPORT, "report", "{}", "-o", "{}"], "-o"),
    "a program to be fused": ([OPT, "{}/program.mlir", "--form-kernels"], "{}/program.mlir:"),
    "a pipeline of bascule-run": ([RUN, RIGHT, "--pipeline=nothing"], "nothing"),
    "a pipeline of bascule-reduce": ([REDUCE, RIGHT, "--test=crash", "--pipeline=nothing"], "nothing"),
    "a pass nested in a pass": (
        [OPT, RIGHT, "--pass-pipeline=form-kernels(cse)"],
        "'form-kernels' is a pass, not an op",
    ),
    # Options.
    "help on nothing": ([OPT, "--help="], "--help: a value is missing"),
    "a flag that is none": ([OPT, RIGHT, "--form-kernel"], "did you mean --form-kernels?"),
    "a flag without its value": ([OPT, RIGHT, "--pass-pipeline"], "--pass-pipeline"),
    "two files": ([OPT, RIGHT, RIGHT], "one input file"),
    "no file": ([OPT, "{}/nowhere.mlir"], "nowhere.mlir"),
    "a folder": ([OPT, "{}"], "{}"),
    "an output that cannot be": ([OPT, RIGHT, "-o", "{}/nowhere/out"], "-o"),
    "a switch of no value": ([OPT, RIGHT, "--verify-each=maybe"], "--verify-each"),
    "remarks of no pass": ([OPT, RIGHT, "--remarks-filter=nothing"], "--remarks-filter"),
    "remarks to nowhere": ([OPT, RIGHT, "--remarks-output-file={}/nowhere/out"], "--remarks-output-file"),
    "a module of passes that is not there": ([OPT, RIGHT, "--load-pass=nowhere:Nothing"], "nowhere"),
    "a class that is no pass": ([OPT, RIGHT, "--load-pass={}/passes.py:NoPass"], "NoPass"),
    "a file of passes that does not parse": ([OPT, RIGHT, "--load-pass={}/syntax.py:f"], "syntax.py"),
    "a reproducer that is cut": ([OPT, "{}/reproducer.mlir", "--run-reproducer"], "reproducer"),
    "a reproducer of no pass": ([OPT, "{}/unknown.mlir", "--run-reproducer"], "nothing"),
    "a reproducer of a pass that cannot be loaded": ([OPT, "{}/loads.mlir", "--run-reproducer"], "nowhere"),
    "a function that is not there": ([RUN, RIGHT, "--function=nothing"], "nothing"),
    "no function at all": ([RUN, "{}/empty.mlir"], "function"),
    "sizes that are none": ([RUN, RIGHT, "--shapes=s0=-1"], "--shapes"),
    "a size of no symbol": ([RUN, RIGHT, "--shapes=s0=4"], "s0"),
    "inputs that are cut": ([RUN, RIGHT, "--inputs={}/cut.json"], "{}/cut.json"),
    "inputs of another version": ([RUN, RIGHT, "--inputs={}/other.json"], "{}/other.json"),
    "inputs that are none": ([RUN, RIGHT, "--inputs={}/no.json"], "{}/no.json"),
    "inputs of no dtype": ([RUN, RIGHT, "--inputs={}/dtype.json"], "{}/dtype.json"),
    "inputs too few": ([RUN, RIGHT, "--inputs={}/few.json"], "argument"),
    "inputs of another size": ([RUN, RIGHT, "--inputs={}/shape.json"], "argument"),
    "inputs of a size below zero": ([RUN, RIGHT, "--inputs={}/below.json"], "{}/below.json"),
    "inputs beyond all memory": ([RUN, RIGHT, "--inputs={}/huge.json"], "{}/huge.json"),
    "inputs of half a file": ([RUN, RIGHT, "--inputs={}/cut.pt"], "{}/cut.pt"),
    "a function of no file": ([IMPORT, "{}/nowhere.py:f"], "nowhere.py"),
    "no function of a file": ([IMPORT, "{}/functions.py:g", "--inputs=f32[4]"], "known: "),
    "a value for a function": ([IMPORT, "{}/functions.py:value", "--inputs=f32[4]"], "value"),
    "a file that is no Python": ([IMPORT, "{}/syntax.py:f", "--inputs=f32[4]"], "{}/syntax.py"),
    "a file with a zero byte": ([IMPORT, "{}/zero.py:f", "--inputs=f32[4]"], "{}/zero.py"),
    "a file that raises": ([IMPORT, "{}/raises.py:f", "--inputs=f32[4]"], "when it is read"),
    "a tensor that is cut": ([IMPORT, "{}/functions.py:f", "--inputs=f32[4,8"], "--inputs:1"),
    "a tensor of no dtype": ([IMPORT, "{}/functions.py:f", "--inputs=f32[4],f99[4]"], "--inputs:8"),
    "a tensor beyond all memory": ([IMPORT, "{}/functions.py:f", "--inputs=f32[1125899906842624]"], "--inputs:1"),
    "a tensor of too large a number": (
        [IMPORT, "{}/functions.py:f", "--inputs=f32[99999999999999999999]"],
        "--inputs:1",
    ),
    "inputs that a function does not take": (
        [IMPORT, "{}/functions.py:f", "--inputs=f32[4],f32[4]"],
        "does not take its inputs",
    ),
    "a graph that breaks": ([IMPORT, "{}/functions.py:breaks", "--inputs=f32[4]"], "functions.py"),
    "a function that raises": ([IMPORT, "{}/functions.py:raises", "--inputs=f32[4]"], "the user's own"),
    "shapes that do not go together": ([IMPORT, "{}/functions.py:shapes", "--inputs=f32[4,5]"], "functions.py"),
    "a target of no kind": ([IMPORT, "{}/functions.py:f", "--inputs=f32[4]", "--target=abacus"], "--target"),
    "what is imported, to nowhere": (
        [IMPORT, "{}/functions.py:f", "--inputs=f32[4]", "-o", "{}/nowhere/out"],
        "nowhere/out",
    ),
    "what does not fail, to be reduced": ([REDUCE, RIGHT, "--test=crash"], "nothing to reduce"),
    "what is reduced, to nowhere": ([REDUCE, RIGHT, "--test=crash", "-o", "{}/nowhere/out"], "-o"),
    "a report of no folder": ([REPORT, "report", "{}/nowhere"], "{}/nowhere"),
    "a report of no dump": ([REPORT, "report", "{}"], "{}"),
    "times of no folder": ([REPORT, "bench", "{}/nowhere"], "{}/nowhere"),
    "times of no dump": ([REPORT, "bench", "{}"], "there is no dump of a graph"),
    "times of a file": ([REPORT, "bench", "{}/right.mlir"], "{}/right.mlir"),
    "times, to nowhere": ([REPORT, "bench", "{}", "--json={}/nowhere/out"], "--json"),
    "a number of threads that is none": ([REPORT, "bench", "{}", "--threads=0"], "--threads"),
    "a command of none": ([REPORT, "abacus"], "abacus"),
    "a stage of none": ([IMPORT, "{}/functions.py:f", "--stage=abacus"], "--stage"),
    "a tolerance below zero": ([RUN, RIGHT, "--tolerance=-1"], "--tolerance"),
    "an option that bascule-run lacks": ([RUN, RIGHT, "--abacus"], "--abacus"),
    "a reduction of nothing in particular": ([REDUCE, RIGHT], "--test"),
    "times at sizes that are none": ([REPORT, "bench", "{}", "--shapes=s0"], "--shapes"),
}
