"""Runs cases in a process of its own: a compiler that takes the process down takes one case with it.

    python -m tests.operators.worker COMPILER SAMPLES TARGET [empty]      (cases on the standard input, one `operator<TAB>dtype` a line)

COMPILER is `backend`, `dynamo`, or a pipeline whose IR the reference interpreter runs; TARGET the option `target` of the first two; `empty`:
the samples have sizes of 0. Answers a line of JSON a case.
"""

import json
import sys
import warnings

import torch

from tests.operators.check import Wrong, check
from tests.operators.compilers import Compiler, bascule, interpreted
from tests.operators.opinfo import Case


def compiler_for(name: str, target: str) -> Compiler:
    if name in ("backend", "dynamo"):
        return Compiler(bascule(target), dynamo=name == "dynamo", drawing=bascule(target, random="eager"))
    return Compiler(interpreted(name), dynamo=False)


def outcome(case: Case, compiler: str, count: int, target: str, empty: bool) -> dict:
    """The outcome of `check`: status `generated` (nothing went to ATen), `aten`, `skipped` (no sample was run), `wrong` or `error`."""
    try:
        with torch.backends.cudnn.flags(allow_tf32=False):  # eager's convolution may be another: 1e-3 would say nothing
            found = check(case, compiler_for(compiler, target), count, empty=empty)
    except Exception as error:  # whatever it is, it is the outcome of this case
        cause = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        status = "wrong" if isinstance(error, Wrong) else "error"
        lines = [line for line in str(cause).splitlines() if line.strip()][:3]
        notes = " ".join(getattr(error, "__notes__", ()))
        return {"status": status, "message": f"{type(cause).__name__}: {' | '.join(lines)}"[:400] + f" ({notes})"}
    finally:
        torch._dynamo.reset()
    counts = {"aten": found.aten, "kernels": found.kernels, "samples": found.samples, "exempt": dict(found.exempt)}
    if found.exempt and not found.samples:
        return {"status": "skipped", "message": "; ".join(found.exempt), **counts}
    return {"status": "aten" if found.aten else "generated", **counts}


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    answers = sys.stdout
    sys.stdout = sys.stderr  # what an operator prints is no answer
    compiler, count, target, empty = sys.argv[1], int(sys.argv[2]), sys.argv[3], "empty" in sys.argv[4:]
    for line in sys.stdin:
        operator, dtype = line.rstrip("\n").split("\t")
        answer = outcome(Case(operator, getattr(torch, dtype)), compiler, count, target, empty)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
