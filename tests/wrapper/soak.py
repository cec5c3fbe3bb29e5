"""Random programs that write to inputs, to views of them and to intermediates, and return aliases: compiled against eager.

    python tests/wrapper/soak.py --graphs 2000 --seed 0

What AOTAutograd gets wrong before any backend is asked (`backend="aot_eager"` differs from eager too), or its min-cut partitioner refuses (it
saves an input that is written later), is counted as PyTorch's.
A program that differs otherwise is written to `--failures` as a file that shows it again. Exit status 1 if there is one.
"""

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from harness import Case, check_seen, compiled, observe

ROWS, COLUMNS = 4, 6
VIEWS = (
    "{a}.t()",
    "{a}[1:]",
    "{a}[:, ::2]",
    "{a}[0]",
    "{a}.reshape(-1)",
    "{a}.unsqueeze(0)",
    "{a}.flatten()",
    "{a}.detach()",
    "{a}.view_as({a})",
    "{a}.expand(2, *{a}.shape)",
    "{a}.narrow(0, 0, 2)",
)
NEW = (
    "torch.sin({a})",
    "{a} * 0.5",
    "{a} + {b}",
    "torch.tanh({a}) - {b}",
    "{a}.clone()",
    "{a}.sum(0)",
    "{a}.amax(-1, keepdim=True) + {b}",
    "torch.softmax({a}, -1)",
    "torch.where({a} > 0, {a}, {b})",
    "{a}.cumsum(0)",
    "torch.cat([{a}, {a}])",
    "{a}.contiguous()",
    "{a}.flip(0)",
    "torch.full_like({a}, 0.25)",
)
WRITES = (
    "{a}.mul_(0.5)",
    "{a}.add_({b})",
    "{a}.copy_({b})",
    "{a}.sin_()",
    "{a}.zero_()",
    "{a}[0] = 0.25",
    "{a}[{a} > 0.5] = 0.125",
    "{a}.clamp_(-0.5, 0.5)",
    "{a}.t().add_(0.1)",
)


@dataclass(frozen=True)
class Written:
    """A random program: its text defines `program(x, y, z)`; `train` if it is run with gradients."""

    seed: int
    text: str
    train: bool

    def function(self) -> Callable:
        namespace: dict = {"torch": torch}
        exec(compile(self.text, f"<soak {self.seed}>", "exec"), namespace)
        return namespace["program"]

    def inputs(self) -> list[torch.Tensor]:
        """Three tensors; some seeds give two that share memory, one that is strided, or one twice."""
        x, y, z = (torch.rand(ROWS, COLUMNS) - 0.5 for _ in range(3))
        if self.train:
            return [x.requires_grad_(), y.requires_grad_(), z]
        match self.seed % 6:
            case 0:
                base = torch.rand(ROWS + 1, COLUMNS) - 0.5
                return [base[:ROWS], base[1:], z]
            case 1:
                return [x, x, z]
            case 2:
                return [(torch.rand(COLUMNS, ROWS) - 0.5).t(), y, z]
            case 3:
                return [x, x[1:3], z]
            case 4:
                return [(torch.rand(ROWS * COLUMNS + 1) - 0.5)[1:].view(ROWS, COLUMNS), y, z]
        return [x, y, z]


def write(seed: int) -> Written:
    """The program of `seed`; the same each time."""
    choose = random.Random(seed)
    train = choose.random() < 0.35
    names, lines = ["x", "y", "z"], ["def program(x, y, z):"]
    for number in range(choose.randint(3, 14)):
        a, b = choose.choice(names), choose.choice(names)
        kind = choose.random()
        if kind < 0.3 and not (train and a in "xy"):
            lines.append(f"    {choose.choice(WRITES).format(a=a, b=b)}")
            continue
        name = f"v{number}"
        lines.append(f"    {name} = {choose.choice(VIEWS if kind < 0.6 else NEW).format(a=a, b=b)}")
        names.append(name)
    returned = choose.sample(names, min(len(names), choose.randint(1, 5)))
    lines.append(f"    return {', '.join(returned)},")
    return Written(seed, "\n".join(lines) + "\n", train)


def programs(seed: int, number: int):
    """`number` programs from `seed` on that eager runs."""
    found = 0
    while found < number:
        program, seed = write(seed), seed + 1
        case = Case(f"seed {program.seed}", program.function(), program.inputs, grad=program.train, tolerance=1e-5)
        try:
            observe(case, case.function)
        except (RuntimeError, IndexError, ValueError):  # sizes that do not fit, a write that eager refuses
            continue
        found += 1
        yield program, case


def check(case: Case) -> bool:
    """False for a program that PyTorch gets wrong without us. Raises what compiling raises, or `AssertionError` for other results."""
    try:
        _check(case, compiled(case.function, fullgraph=False))
    except Exception as error:
        for backend in ("aot_eager", "aot_eager_decomp_partition"):
            try:
                _check(case, torch.compile(case.function, backend=backend, dynamic=False))
            except Exception as theirs:  # of any kind; of the partitioner's only the very same
                if backend == "aot_eager" or str(theirs) == str(error):
                    return False
        raise
    return True


def _check(case: Case, function: Callable) -> None:
    torch._dynamo.reset()
    for _ in range(2):
        check_seen(case, observe(case, function), observe(case, case.function))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", type=Path, default=Path("soak_failures"))
    arguments = parser.parse_args()
    wrong = pytorchs = 0
    for number, (program, case) in enumerate(programs(arguments.seed, arguments.graphs), 1):
        try:
            pytorchs += not check(case)
        except Exception as error:  # of any kind: it is written down, and the next program runs
            wrong += 1
            arguments.failures.mkdir(parents=True, exist_ok=True)
            told = "\n".join(f"# {line}" for line in str(error).splitlines()[:20])
            (arguments.failures / f"seed_{program.seed}.py").write_text(f"{told}\nimport torch\n\n\n{program.text}")
            print(f"seed {program.seed}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        if number % 100 == 0:
            print(f"{number} programs, {wrong} wrong, {pytorchs} wrong without us", flush=True)
    print(f"{arguments.graphs} programs, {wrong} wrong, {pytorchs} wrong without us")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
