"""Random programs that write to inputs, to views of them and to intermediates, and return aliases: compiled against eager.

    python -m tests.wrapper.soak --graphs 2000 --seed 0

Seeds from `WIDE` on choose among more: views of views that are written, metadata and storages that change, tensor subclasses, other dtypes, two
sizes that one dynamic compile serves.

What AOTAutograd gets wrong before any backend is asked (`backend="aot_eager"` differs from eager too), or its min-cut partitioner refuses (it
saves an input that is written later), is counted as PyTorch's.
A program that differs otherwise is written to `--failures` as a file that shows it again. Exit status 1 if there is one.
"""

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch.testing._internal.two_tensor import TwoTensor

from tests.wrapper.harness import Case, check_seen, compiled, observe

ROWS, COLUMNS = 4, 6
WIDE = 1_000_000
UNHANDLED = "aot_autograd() does not yet handle"  # what AOTAutograd says of mutated inputs that it refuses
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


MORE_VIEWS = (
    "{a}.movedim(0, -1)",
    "{a}[1:][..., ::2]",
    "{a}.t().reshape(-1)",
    "{a}.unflatten(-1, (2, -1))",
    "{a}.as_strided((2, 3), (1, 2), {a}.storage_offset())",
    "{a}.diagonal()",
    "{a}.squeeze()",
    "{a}.split(2)[0]",
    "{a}.unfold(0, 2, 1)",
    "{a}.real",
)
MORE_NEW = (
    "TwoTensor({a}, {a} + 1)",
    "({a} * 4).to(torch.int64)",
    "{a}.to(torch.float64)",
    "{a} > {b}",
    "torch.stack([{a}, {b}])",
    "{a}.gather(0, torch.zeros_like({a}, dtype=torch.int64))",
    "{a}.index_select(0, torch.tensor([1, 0, 1]))",
    "{a}.sort(-1).values",
    "{a}.new_zeros({a}.shape).add_({b})",
    "torch.nn.functional.pad({a}, (1, 1))",
    "{a}.clone(memory_format=torch.preserve_format).t().contiguous()",
    "{a}.expand(2, *{a}.shape).clone()",
)
MORE_WRITES = (
    "{a}[1:].t().mul_(2)",
    "{a}.view(-1)[::2].add_(1)",
    "{a}[0].unsqueeze(0).copy_({b}[:1])",
    "{a}[:, 1:].copy_({b}[:, :-1])",
    "{a}[1:].copy_({a}[:-1].clone())",
    "{a}.masked_fill_({b} > 0, 0.5)",
    "{a}.index_add_(0, torch.tensor([0, 1, 0]), {b}[:3])",
    "{a}.scatter_(0, torch.zeros_like({a}, dtype=torch.int64), 0.75)",
    "{a}.fill_diagonal_(1.0)",
    "{a}.as_strided((2, 2), (1, 2), {a}.storage_offset()).add_(1)",
    "{a}.select(0, 1).swapaxes(0, -1).neg_()",
    "{a}.detach().mul_(1.5)",
    "{a}.data.add_(0.25)",
    "torch.sin({b}, out={a})",
    "torch._foreach_mul_([{a}, {b}], 0.5)",
    "{a}.t_()",
    "{a}.unsqueeze_(0)",
    "{a}.squeeze_(0)",
    "{a}.set_({b})",
    "{a}.resize_(2, 2)",
)


@dataclass(frozen=True)
class Written:
    """A random program: its text defines `program(x, y, z)`; `train` if it is run with gradients, `dynamic` if its number of rows changes."""

    seed: int
    text: str
    train: bool
    dynamic: bool = False

    def function(self) -> Callable:
        namespace: dict = {"torch": torch, "TwoTensor": TwoTensor, "parts": parts}
        exec(compile(self.text, f"<soak {self.seed}>", "exec"), namespace)
        return namespace["program"]

    def inputs(self, rows: int = ROWS) -> list[torch.Tensor]:
        """Three tensors; some seeds give two that share memory, one that is strided, or one twice."""
        x, y, z = (torch.rand(rows, COLUMNS) - 0.5 for _ in range(3))
        if self.train:
            return [x.requires_grad_(), y.requires_grad_(), z]
        match self.seed % 6:
            case 0:
                base = torch.rand(rows + 1, COLUMNS) - 0.5
                return [base[:rows], base[1:], z]
            case 1:
                return [x, x, z]
            case 2:
                return [(torch.rand(COLUMNS, rows) - 0.5).t(), y, z]
            case 3:
                return [x, x[1:3], z]
            case 4:
                return [(torch.rand(rows * COLUMNS + 1) - 0.5)[1:].view(rows, COLUMNS), y, z]
        return [x, y, z]


def write(seed: int) -> Written:
    """The program of `seed`; the same each time."""
    choose, wide = random.Random(seed), seed >= WIDE
    views, new, writes = (VIEWS + MORE_VIEWS, NEW + MORE_NEW, WRITES + MORE_WRITES) if wide else (VIEWS, NEW, WRITES)
    train = choose.random() < 0.35
    names, lines = ["x", "y", "z"], ["def program(x, y, z):"]
    for number in range(choose.randint(3, 14)):
        a, b = choose.choice(names), choose.choice(names)
        kind = choose.random()
        if kind < 0.3 and not (train and a in "xy"):
            lines.append(f"    {choose.choice(writes).format(a=a, b=b)}")
            continue
        name = f"v{number}"
        lines.append(f"    {name} = {choose.choice(views if kind < 0.6 else new).format(a=a, b=b)}")
        names.append(name)
    returned = choose.sample(names, min(len(names), choose.randint(1, 5)))
    lines.append(f"    return {', '.join(f'*parts({name})' if wide else name for name in returned)},")
    return Written(seed, "\n".join(lines) + "\n", train, wide and choose.random() < 0.3)


def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The plain tensors of one that may be a pair."""
    return (x.a, x.b) if isinstance(x, TwoTensor) else (x,)


def programs(seed: int, number: int):
    """`number` programs from `seed` on that eager runs."""
    found = 0
    while found < number:
        program, seed = write(seed), seed + 1
        case = case_of(program)
        try:
            for one in sizes_of(case):
                observe(one, case.function)
        except Exception:  # of any kind: sizes that do not fit, a write that eager refuses
            continue
        found += 1
        yield program, case


def case_of(program: Written) -> Case:
    named = f"seed {program.seed}"
    return Case(named, program.function(), program.inputs, program.dynamic, program.train, tolerance=1e-5)


def sizes_of(case: Case) -> list[Case]:
    """Two calls: of the same sizes, or where one compile serves many, of two."""
    return [case, replace(case, inputs=partial(case.inputs, rows=ROWS + 3)) if case.dynamic else case]


def check(case: Case) -> bool:
    """False for a program that PyTorch gets wrong without us. Raises what compiling raises, or `AssertionError` for other results."""
    try:
        _check(case, compiled(case.function, case.dynamic, fullgraph=False))
    except Exception as error:
        if UNHANDLED in str(error):
            return False
        # Inductor, as we do, writes mutations of inputs into its graphs (seed 1041072: a view of one of two inputs that overlap is returned).
        for backend in ("aot_eager", "aot_eager_decomp_partition", "inductor"):
            try:
                _check(case, torch.compile(case.function, backend=backend, dynamic=case.dynamic))
            except Exception as theirs:  # of any kind; of the last two only the very same
                if backend == "aot_eager" or str(theirs) == str(error):
                    return False
        raise
    return True


def _check(case: Case, function: Callable) -> None:
    torch._dynamo.reset()
    for one in sizes_of(case):
        check_seen(one, observe(one, function), observe(one, case.function))


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
