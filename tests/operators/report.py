"""Runs PyTorch's operator database against eager, and counts what ran only generated kernels.

python -m tests.operators.report [--operators add,softmax] [--part 2/8] [--target interpret] [--empty] [--json report.json]

On another device: `BASCULE_TEST_DEVICE=cuda python -m tests.operators.report`.
"""

import argparse
import json
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from tests.operators.opinfo import DTYPES, SAMPLES, Case, cases

SECONDS = 120  # for one case
GOOD = ("generated", "aten", "skipped")


class Worker:
    """A process that runs cases; a new one when it dies or hangs."""

    def __init__(self, compiler: str, samples: int, target: str = "auto", *, empty: bool = False):
        self.command = [sys.executable, "-m", "tests.operators.worker", compiler, str(samples), target]
        self.command += ["empty"] if empty else []
        self.process: subprocess.Popen | None = None

    def run(self, case: Case) -> dict:
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        dtype = str(case.dtype).removeprefix("torch.")
        self.process.stdin.write(f"{case.operator}\t{dtype}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.process.kill()
        status = self.process.wait()
        self.process = None
        if not ready:
            return {"status": "error", "message": f"took longer than {SECONDS} s"}
        return {"status": "crash", "message": f"the process ended with status {status}"}

    def close(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def run(chosen: list[Case], worker: Worker) -> Iterator[tuple[Case, dict]]:
    """Runs the cases one after another; yields each with its outcome."""
    for case in chosen:
        start = perf_counter()
        outcome = worker.run(case)
        yield case, outcome | {"seconds": round(perf_counter() - start, 2)}
    worker.close()


def table(results: dict[str, dict]) -> str:
    """Counts by dtype, and by operator over all its dtypes."""
    statuses = ("generated", "aten", "skipped", "wrong", "error", "crash")
    lines = [f"{'':12}" + "".join(f"{status:>11}" for status in statuses)]
    for dtype in (str(d).removeprefix("torch.") for d in DTYPES):
        counts = Counter(r["status"] for name, r in results.items() if name.endswith(f"-{dtype}"))
        lines.append(f"{dtype:12}" + "".join(f"{counts[status]:>11}" for status in statuses))
    worst: dict[str, int] = {}
    for name, result in results.items():
        operator = name.rpartition("-")[0]
        worst[operator] = max(worst.get(operator, 0), statuses.index(result["status"]))
    counts = Counter(worst.values())
    lines.append(f"{'operators':12}" + "".join(f"{counts[i]:>11}" for i in range(len(statuses))))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.operators.report", description=__doc__.splitlines()[0])
    parser.add_argument("--operators", help="names, separated by commas (default: all)")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th operator from the I-th")
    parser.add_argument("--dtypes", help="names, separated by commas (default: float32, int64, bool, bfloat16)")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="how many of each case")
    parser.add_argument("--compiler", default="backend", help="backend, dynamo, or a pipeline to interpret the IR of")
    parser.add_argument("--target", default="auto", choices=("auto", "interpret"), help="the backend's option")
    parser.add_argument("--empty", action="store_true", help="sizes of 0 in the samples")
    parser.add_argument("--json", metavar="FILE", help="where to write every outcome")
    parser.add_argument("--show", action="store_true", help="a line for each case that is not good, as it comes")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    chosen = cases(arguments.operators.split(",") if arguments.operators else None)
    names = list(dict.fromkeys(case.operator for case in chosen))[part - 1 :: parts]
    dtypes = arguments.dtypes.split(",") if arguments.dtypes else None
    chosen = [
        case
        for case in chosen
        if case.operator in names and (dtypes is None or str(case.dtype).removeprefix("torch.") in dtypes)
    ]
    worker = Worker(arguments.compiler, arguments.samples, arguments.target, empty=arguments.empty)
    results = {}
    exempt: Counter[str] = Counter()
    for case, outcome in run(chosen, worker):
        results[str(case)] = outcome
        exempt.update(outcome.get("exempt", {}))
        if arguments.show and outcome["status"] not in GOOD:
            print(f"{outcome['status']:6} {case}: {outcome['message']}", flush=True)
    print(table(results))
    for reason, number in exempt.items():
        print(f"{number} samples: {reason}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1))
    return int(any(result["status"] not in GOOD for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
