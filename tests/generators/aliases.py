"""Writes to inputs that overlap themselves or each other: views, `as_strided`, `expand`, `unfold`, `set_`, other dtypes over one storage.

All numbers are whole and small, so that no rounding differs: results and every byte of the storages are the same as eager's.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

import torch

from tests.generators.elementwise import differences
from tests.wrapper.harness import Case as Situation
from tests.wrapper.harness import Seen, observe, sharing, strides, tensors_in

ROWS = (4, 5)  # of the first call and, of dynamic sizes, of the second
INPUTS = (
    "s.as_strided((n, 4), (3, 1))",
    "s.as_strided((n, 4), (1, 1), 2)",
    "s.as_strided((n, 4), (9, 2), 1)",
    "s[:4].expand(n, 4)",
    "s[:4].unsqueeze(1).expand(4, n)",
    "s.unfold(0, 4, 2)[:n]",
    "s[2 : 2 + 4 * n].view(n, 4)",
    "s[: 4 * n].view(n, 4).t()",
    "s.detach()[3 : 3 + 4 * n].view(n, 4)",
    "s.data[: 4 * n].view(n, 4)",
    "s.view(torch.int32)[: 4 * n].view(n, 4)",
    "torch.empty(0).set_(s.untyped_storage(), 5, (n, 4), (4, 1))",
    "torch.empty(0).set_(s.untyped_storage(), 40, (n, 4), (4, 1))",
    "torch.empty(0, dtype=torch.int64).set_(s.untyped_storage(), 3, (n, 4), (3, 1))",
    "s",
    "s.clone()[: 4 * n].view(n, 4)",
)
VIEWS = (
    "{a}[1:]",
    "{a}[:2]",
    "{a}[0]",
    "{a}.t()",
    "{a}[..., ::2]",
    "{a}.unsqueeze(0)",
    "{a}.expand(2, *{a}.shape)",
    "{a}.unfold(0, 2, 1)",
    "{a}.as_strided((3, 2), (1, 1), {a}.storage_offset())",
    "{a}.detach()",
    "{a}.reshape(-1)",
)
NEW = ("{a} + 0", "{a} * 2", "{a}.amax(0)", "{a} + {b}.amax()", "{a}.clone()", "{a}.flip(0)")
WRITES = (
    "{a}.zero_()",
    "{a}.fill_(3)",
    "{a}.mul_(2)",
    "{a}.add_(1)",
    "{a}.add_({b}.amax())",
    "{a}.copy_({b}.amax())",
    "{a}[0] = 5",
    "{a}[:2].zero_()",
    "{a}.t().add_(2)",
    "{a}[..., 1:].copy_({a}[..., :-1].clone())",
    "{a}.unsqueeze_(0)",
    "{a}.t_()",
)
FRAME = """\
import torch


def inputs(n, seed):
    torch.manual_seed(seed)
    leaf = torch.randint(-8, 9, (80,)).float(){grad}
    s = leaf * 1
    return [leaf, {inputs}]


def program({names}):
{body}
    return {returned},
"""


@dataclass(frozen=True)
class Program:
    """`inputs` are expressions of a storage `s` and a size `n`; the lines of `body` name them x0, x1, ..."""

    known: ClassVar[tuple[str, ...]] = INPUTS
    frame: ClassVar[str] = FRAME
    inputs: tuple[str, ...]
    body: tuple[str, ...]
    returned: tuple[str, ...]
    train: bool
    dynamic: bool

    def text(self) -> str:
        return self.frame.format(
            grad=".requires_grad_()" if self.train else "",
            inputs=", ".join(self.inputs),
            names=", ".join(["leaf", *(f"x{i}" for i in range(len(self.inputs)))]),
            body="\n".join(f"    {line}" for line in self.body),
            returned=", ".join(self.returned),
        )

    def source(self) -> str:
        return (
            f"from {type(self).__module__} import Program\n\n\ndef test_it():\n    assert not {self!r}.differences('bascule')\n\n\n"
            + "".join(f"# {line}\n" for line in self.text().splitlines())
        )

    def situations(self) -> list[Situation]:
        """Two calls, of other numbers, and where sizes are dynamic of other sizes."""
        names: dict[str, Any] = {}
        exec(compile(self.text(), "<aliases>", "exec"), names)
        calls = enumerate(ROWS if self.dynamic else ROWS[:1] * 2)
        given = [(lambda n=n, seed=seed: names["inputs"](n, seed)) for seed, n in calls]
        return [Situation("aliases", names["program"], inputs, self.dynamic, self.train) for inputs in given]

    def runs(self) -> bool:
        """Whether eager takes it."""
        try:
            for one in self.situations():
                seen(one, one.function)
        except Exception:  # of any kind: sizes that do not fit, a write that eager refuses
            return False
        return True

    def differences(self, backend: str, **ours: Any) -> list[str]:
        """`ours`: further options of Bascule's."""
        if not self.runs():
            return []
        torch._dynamo.reset()
        calls = self.situations()
        options = {"on_error": "raise", **ours} if backend == "bascule" else {}
        ours = torch.compile(calls[0].function, backend=backend, dynamic=self.dynamic, options=options)
        found = []
        for number, one in enumerate(calls):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some of them run as eager, as they are to
                got = seen(one, ours)
            found += [f"call {number}: {line}" for line in compare(got, seen(one, one.function))]
        return found

    def smaller(self) -> Iterator["Program"]:
        for i in range(len(self.returned) if len(self.returned) > 1 else 0):
            yield replace(self, returned=self.returned[:i] + self.returned[i + 1 :])
        for i in range(len(self.body) if len(self.body) > 1 else 0):
            yield replace(self, body=self.body[:i] + self.body[i + 1 :])
        if self.dynamic:
            yield replace(self, dynamic=False)
        if self.train:
            yield replace(self, train=False)


def draw(random: Random) -> Program:
    def step(a: str, b: str) -> tuple[str, bool]:
        kind = random.random()
        texts = WRITES if kind < 0.45 else VIEWS if kind < 0.8 else NEW
        return random.choice(texts).format(a=a, b=b), texts is not WRITES

    return draw_of_steps(Program, random, step)


def draw_of_steps(made: type[Program], random: Random, step: Callable[[str, str], tuple[str, bool]]) -> Program:
    """A program that runs, of steps on two of its tensors: each a text, and whether it gives one more."""
    while True:
        inputs = tuple(random.choices(made.known, k=random.randint(1, 3)))
        names, body = [f"x{i}" for i in range(len(inputs))], []
        for number in range(random.randint(1, 6)):
            a, b = random.choice(names), random.choice(names)
            text, gives = step(a, b)
            body.append(f"v{number} = {text}" if gives else text)
            names += [f"v{number}"] if gives else []
        returned = tuple(random.sample(names, random.randint(1, min(3, len(names)))))
        program = made(inputs, tuple(body), returned, random.random() < 0.3, random.random() < 0.3)
        if program.runs():
            return program


@dataclass(frozen=True)
class All:
    """The view of `observe`, and the bytes of the storages of the inputs."""

    seen: Seen
    storages: list[torch.Tensor]


def seen(one: Situation, function: Callable[..., Any]) -> All:
    found = observe(one, function)
    memory = [torch.empty(0, dtype=torch.uint8).set_(x.detach().untyped_storage()) for x in found.inputs]
    return All(found, [x.clone() for x in memory])


def _views(found: All, made: list[torch.Tensor]) -> list[bool]:
    """Of each output that lies in the memory of an input, whether autograd takes it for a view."""
    inputs = {x.untyped_storage().data_ptr() for x in found.seen.inputs}
    return [x._is_view() for x in made if x.untyped_storage().data_ptr() in inputs]


def compare(got: All, want: All) -> list[str]:
    found = []
    for number, (a, b) in enumerate(zip(got.storages, want.storages, strict=True)):
        found += differences(f"storage of input {number}", a, b)
    made, right = tensors_in(got.seen.outputs), tensors_in(want.seen.outputs)
    for number, (a, b) in enumerate(zip(made, right, strict=True)):
        found += differences(f"output {number}", a, b, ulps=0)
    for number, (a, b) in enumerate(zip(got.seen.gradients, want.seen.gradients, strict=True)):
        if (a is None) != (b is None):
            found.append(f"gradient {number}: {a}, not {b}")
        elif b is not None:
            found += differences(f"gradient {number}", a, b, sums=80)
    told = {
        "strides of outputs": [[strides(x) for x in t] for t in (made, right)],
        "offsets of outputs": [[x.storage_offset() for x in t] for t in (made, right)],
        "which outputs are views of inputs": [_views(got, made), _views(want, right)],
        "which outputs need gradients": [[x.requires_grad for x in t] for t in (made, right)],
        "which inputs count as written": [got.seen.written, want.seen.written],
        "which are one object": [got.seen.identical, want.seen.identical],
        "layouts of inputs": [[(x.shape, strides(x), x.storage_offset()) for x in s.seen.inputs] for s in (got, want)],
        "what is conjugated": [[x.is_conj() for x in t] for t in (made, right)],
        "what is negated": [[x.is_neg() for x in t] for t in (made, right)],
        "who shares memory": [sharing([*s.seen.inputs, *t]) for s, t in ((got, made), (want, right))],
    }
    return [*found, *(f"{what}: {a}, not {b}" for what, (a, b) in told.items() if a != b)]
