"""Programs of several processes, whose shards differ in size and may be empty: results, gradients and the number of collectives are eager's.

A program has two shards a process, `x` and `y` [rows, 4], and a matrix `e` [4, 4], all in f64; rows differ from process to process. Its values
are such shards ("x", "y") or matrices that are as large everywhere ("e"); each statement makes one, and collectives take matrices.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.generators.rank_programs import run
from tests.generators.ranks import COUNT, RankError, on_ranks

ROWS = (0, 1, 3, 40, 600, 1400)
# Text of an expression: {a}, {b} are matrices, {s}, {t} equally long shards of one kind.
SHARDS = ("{s}.sin() * 2", "{s} * {t}.cos()", "{s} @ {a}", "({s} + {t}).tanh()", "{s} - {t}.mean(1, keepdim=True)")
MATRICES = (
    *("{s}.t() @ {t}", "{s}.t() @ {s}", "{s}.sum(0) + {a}", "{a} @ {b}", "{a} * {b}.sigmoid()", "{a}.t() - 1"),
    "{a} + {s}.numel()",
)
COLLECTIVES = (
    'fc.all_reduce({a}, "sum", group)',
    'fc.all_reduce({a}, "sum", group) + fc.all_reduce({a}, "sum", group)',
    "fc.all_gather_tensor_autograd({a}, 0, group).view(world, 4, 4).sum(0)",
    "fc.all_gather_tensor_autograd({a}, 1, group)[:, -4:]",
    'fc.reduce_scatter_tensor_autograd({a}.repeat(world, 1), "sum", 0, group)',
    "fc.all_to_all_single_autograd({a}.repeat(world, 1), None, None, group)[-4:]",
    "fc.all_to_all_single_autograd({a}.repeat(2 * world, 1)[:sum(given)], taken, given, group)[:1] + {a}",
    "DTensor.from_local({a}, mesh, [Partial()]).redistribute(mesh, [Replicate()]).to_local()",
    "DTensor.from_local({a}, mesh, [Shard(0)]).redistribute(mesh, [Replicate()]).to_local()[-4:]",
    "DTensor.from_local({a}, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)]).to_local().sum() + {a}",
    "DTensor.from_local({a}, mesh, [Replicate()]).redistribute(mesh, [Shard(0)]).to_local().sum() + {a}",
)
# Without gradients: they have none, or not those of eager.
UNDIFFERENTIATED = (
    'fc.all_reduce({a}, "max", group)',
    "fc.broadcast({a}, 0, group)",
    "in_place_reduced({a})",
    "in_place_gathered({a})",
    "in_place_scattered({a})",
    "in_place_exchanged({a})",
)
UNUSED = ('fc.all_reduce({a}, "sum", group)', "fc.all_gather_tensor({a}, 0, group)", "in_place_reduced({a})")


@dataclass(frozen=True)
class Statement:
    name: str  # "" for what nothing uses
    kind: str  # "x", "y", "e"
    reads: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.name} = {self.text}" if self.name else self.text


@dataclass(frozen=True)
class Program:
    """A case. `rows`: of `x` and of `y`, a pair a process."""

    rows: tuple[tuple[int, int], ...]
    statements: tuple[Statement, ...]
    differentiated: bool

    def text(self) -> str:
        read = {name for statement in self.statements for name in statement.reads}
        returned = [s.name for s in self.statements if s.name and s.name not in read] or ["x", "e"]
        lines = ["def program(x, y, e):", *map(str, self.statements), f"return {', '.join(returned)},"]
        return "\n    ".join(lines) + "\n"

    def source(self) -> str:
        quoted = "".join(f"# {line}\n" for line in self.text().splitlines())
        return (
            f"{quoted}\nfrom tests.generators.collectives import Program, Statement\n\n\n"
            f'def test_it_does_what_eager_does():\n    assert not {self!r}.differences("bascule")\n'
        )

    def differences(self, backend: str) -> list[str]:
        try:
            told = on_ranks(len(self.rows), run, self.text(), self.rows, self.differentiated, backend)
        except RankError as error:
            return [str(error)]
        found = [f"process {rank}: {line}" for rank, (lines, _) in enumerate(told) for line in lines]
        issued = [number for _, number in told]
        if len({*issued}) > 1:
            found.append(f"the processes issue {issued} collectives")
        return found

    def smaller(self) -> Iterator["Program"]:
        if len(self.rows) > 2:
            yield replace(self, rows=self.rows[:-1])
        read = {name for statement in self.statements for name in statement.reads}
        for number, statement in enumerate(self.statements):
            if statement.name not in read:
                yield replace(self, statements=self.statements[:number] + self.statements[number + 1 :])
        if self.differentiated:
            yield replace(self, differentiated=False)


def draw(random: Random) -> Program:
    differentiated = random.random() < 0.5
    values: dict[str, list[str]] = {"x": ["x"], "y": ["y"], "e": ["e"]}
    statements: list[Statement] = []

    def add(kind: str, form: str, used: bool = True) -> None:
        shard = kind if kind != "e" else random.choice("xy")
        pick: Callable[[str], str] = lambda k: random.choice(values[k][-4:])  # noqa: E731
        reads = {"a": pick("e"), "b": pick("e"), "s": pick(shard), "t": pick(shard)}
        read = tuple(reads[key] for key in reads if f"{{{key}}}" in form)
        name = f"v{len(statements)}" if used else ""
        statements.append(Statement(name, kind, read, form.format(**reads)))
        if used:
            values[kind].append(name)

    collectives = COLLECTIVES if differentiated else COLLECTIVES + UNDIFFERENTIATED
    for _ in range(random.randint(2, 4)):
        for _ in range(random.randint(0, 1)):
            add(*random.choice([("x", random.choice(SHARDS)), ("y", random.choice(SHARDS))]))
        add("e", random.choice(MATRICES))
        if random.random() < 0.15 and not differentiated:
            add("e", random.choice(UNUSED), used=False)
        add("e", random.choice(collectives))
    ranks = random.choice((2, 2, 2, 3, COUNT))
    rows = tuple((random.choice(ROWS), random.choice(ROWS)) for _ in range(ranks))
    return Program(rows, tuple(statements), differentiated)
