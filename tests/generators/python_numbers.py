"""Programs that compute with Python's numbers, arguments of the compiled function, and give operators what comes out: integers that are negative
or zero, floats that are symbols too. One compiled function, called with several numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

from tests.generators.elementwise import differences

CALLS = ((3, 2, 1.75), (5, 2, -2.5), (-4, 7, 0.25), (0, 1, 2.5), (12, -5, 3.25), (1, 1, -0.75))
INTEGERS = """
    n; n + m; n - m; n * m; n // 3; -n; n % 4; -n % 5; n % -3; (n - m) // 2; (n - m) % 3; abs(n - m); max(n, m); min(n, 2 * m); n ** 2; int(a);
    int(a * n); math.floor(a); math.ceil(a * 2); round(a * m); int(n / 2); math.trunc(a); n >> 1; n << 2; n & 3; n | 4; int(n > m);
    x.shape[0] - n; -(-n // 4); min(max(n, -2), 3); ~n
"""
FLOATS = """
    a; a * 2; a + n; a / 3; a // 0.7; -a; abs(a); a ** 2; a * n; n / 3; math.sqrt(abs(a)); math.exp(a / 10); math.sin(a); max(a, 1.0);
    float(n); a - m; 1 / (abs(a) + 1); a if n > m else -a; math.tanh(a); math.fmod(a, 0.7); 2.0 ** n; n % 2.5; math.copysign(2.0, a)
"""
USES = """
    x * ({f}); x + ({i}); ({f}) - x; xi + ({i}); xi * ({i}); xi * ({f}); xi < ({i}); x > ({f}); torch.full((3,), {f}); torch.full((3,), {i});
    x.clamp(-2, {f}); xi.clamp({i}, 50); torch.where(x > 0, x, {f}); torch.add(xi, xi, alpha={i}); x.masked_fill(x > 0, {f});
    x[abs({i}) % 6]; x[-(abs({i}) % 6) - 1]; x[abs({i}) % 6 :]; x[-(abs({i}) % 7) :]; x[:, : abs({i}) % 9]; x.roll({i}, 1);
    x.narrow(0, abs({i}) % 3, abs({i}) % 3 + 1); torch.arange({i}, {i} + 4); torch.arange(0, abs({i}) % 20 + 1, abs({i}) % 3 + 1);
    x.new_full((abs({i}) % 4 + 1, 2), {f}); torch.nn.functional.pad(x, (abs({i}) % 3, 1)); x.sum() * ({f}); x.repeat(abs({i}) % 3 + 1, 1);
    torch.tensor([{i}, {i}]); x.diagonal({i} % 7); x.tril({i}); torch.eye(abs({i}) % 5 + 1); x.lerp(x * 2, {f}); (x * ({i})).sum(0)
"""


def _texts(table: str) -> list[str]:
    return [text.strip() for text in table.split(";")]


@dataclass(frozen=True)
class Program:
    """Expressions of `x` [6, 8], `xi` of whole numbers, integers `n` and `m`, and a float `a`; called with the `calls` of these numbers."""

    expressions: tuple[str, ...]
    calls: tuple[tuple[int, int, float], ...]
    symbolic_floats: bool
    dynamic: bool | None

    def text(self) -> str:
        return (
            f"import math\nimport torch\n\n\ndef program(x, xi, n, m, a):\n    return [{', '.join(self.expressions)}]\n"
        )

    def function(self) -> Callable[..., list[Tensor]]:
        names: dict[str, Callable[..., list[Tensor]]] = {}
        exec(compile(self.text(), "<python_numbers>", "exec"), names)
        return names["program"]

    def source(self) -> str:
        return f"# {self!r}\n{self.text()}"

    def differences(self, backend: str) -> list[str]:
        torch._dynamo.reset()
        options = {"on_error": "raise"} if backend == "bascule" else None
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(6, 8, generator=generator, dtype=torch.float64)
        xi = torch.randint(-9, 10, (6, 8), generator=generator)
        found = []
        with torch._dynamo.config.patch(specialize_float=not self.symbolic_floats):
            compiled = torch.compile(self.function(), backend=backend, dynamic=self.dynamic, options=options)
            for numbers in self.calls:
                try:
                    want = self.function()(x.clone(), xi, *numbers)
                except Exception:  # of any kind: eager takes no such numbers
                    continue
                got = compiled(x.clone(), xi, *numbers)
                for text, one, other in zip(self.expressions, got, want):
                    found += differences(f"{text} of {numbers}", one, other, None, ulps=64, sums=64)
        return found

    def smaller(self) -> Iterator["Program"]:
        for parts in ("expressions", "calls"):
            some = getattr(self, parts)
            for i in range(len(some) if len(some) > 1 else 0):
                yield replace(self, **{parts: some[:i] + some[i + 1 :]})


def _filled(text: str, random: Random) -> str:
    while "{" in text:
        kind, table = ("{i}", INTEGERS) if "{i}" in text else ("{f}", FLOATS)
        text = text.replace(kind, random.choice(_texts(table)), 1)
    return text


def draw(random: Random) -> Program:
    return Program(
        expressions=tuple(_filled(random.choice(_texts(USES)), random) for _ in range(6)),
        calls=tuple(random.sample(CALLS, 3)),
        symbolic_floats=random.random() < 0.7,
        dynamic=random.choice([None, True]),
    )
