"""Random programs of PyTorch operators: compiled, against eager, and eager in f64.

    python -m tests.operators.programs --programs 500 --seed 0 [--target interpret] [--empty] [--failures DIR]

A program is written step by step and run as it is written, so that its sizes are real; a step that eager refuses, or that gives nothing, too
much or no finite numbers, is left out. Programs with gradients and with sizes that change between calls come up. One that differs is written to
`--failures`. What is close to where a function jumps differs at times with 16 bits; whoever runs thousands of programs reads what is found.
"""

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.operators import accuracy

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
SMALL = {torch.float64: 1e-30, torch.float32: 1e-30, torch.float16: 1e-4, torch.bfloat16: 1e-30}
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33, 64, 100)
SPECIAL = (float("nan"), float("inf"), -float("inf"))
MOST = 20_000  # elements of an input; of a value four times as many
LONGEST = 128  # of each size of what is multiplied with itself

# `x` is the value at hand, and `dim` one of its dims; see `Fields` for the others.
POINTWISE = """
    torch.sin({x}); torch.exp(-{x}.abs()); F.gelu({x}); F.silu({x}); torch.sigmoid({x}); torch.tanh({x}); F.relu({x}); -{x};
    ({x}.abs() + 0.5).sqrt(); {x} * 0.5 + 1; torch.rsqrt({x}.square() + 1); torch.atan({x}); F.softplus({x}); torch.erf({x});
    torch.log1p({x}.abs()); F.elu({x}); {x}.to({dtype}); {x} + {y}; {x} * {y}; {x} - {y}; torch.maximum({x}, {y});
    {x} / ({y}.abs() + 1); torch.where({x} > {y}, {x}, {y} * 2); {x} + {whole} * 0.1
"""
REDUCTIONS = """
    {x}.sum({dim}, {keep}); {x}.mean({dim}, {keep}); {x}.amax({dim}, {keep}); {x}.amin({dim}, {keep}); {x}.max({dim}).values;
    {x}.logsumexp({dim}, {keep}); {x}.var({dim}, correction=0, keepdim={keep}); {x}.tanh().prod({dim}, {keep}); {x}.max();
    torch.softmax({x}, {dim}); torch.log_softmax({x}, {dim}); F.layer_norm({x}, {x}.shape[-1:]); F.rms_norm({x}, {x}.shape[-1:]);
    torch.cumsum({x}, {dim}) / 8; {x}.cummax({dim}).values; {x} * {x}.mean(-1, True) + {x}.amax(0, True); F.group_norm({x}, 1);
    F.batch_norm({x}, None, None, training=True); {x}.argmax({dim}, {keep}); {whole}.sum({dim}); ({x} > {y}).any({dim})
"""
REARRANGEMENTS = """
    {x}.permute({order}); {x}.reshape(-1); {x}.flatten(1); {x}.flip({dim}); {x}.roll({few}, {dim}); {x}.diagonal(0, -2, -1);
    {x}.narrow({dim}, {few}, {x}.shape[{dim}] - {few}); {x}[{few}::2]; torch.cat([{x}, {x}.sin()], {dim}); {x}.unbind({dim})[-1];
    torch.stack([{x}, {x}.cos()], {dim}); F.pad({x}, ({few}, {few})); F.pad({x}, (1, 1), mode='{border}'); {x}.tril({few} - 1);
    {x}.unsqueeze(-1).expand(*{x}.shape, 3); {x}.unfold({dim}, 3, {few} + 1); {x}.repeat_interleave(2, {dim}); {x}.diff(dim={dim});
    {x}.index_select({dim}, {rows}); {x}.gather({dim}, {places}); {x}.masked_fill({x} > 0.5, -1); F.glu({x}, {dim});
    {x}.index_add({dim}, {rows}, {x}.index_select({dim}, {rows}).cos()); {x}.sort(stable=True, dim={dim}).values;
    {x}.index_put(({rows},), {x}[:1] * 0.5, accumulate=True); {x}.scatter_reduce({dim}, {places}, {x}.gather({dim}, {places}), 'sum')
"""
PRODUCTS = """
    {x} @ {matrix} / 4; torch.bmm({x}, {x}.transpose(1, 2)) / 8; F.scaled_dot_product_attention({x}, {x}, {x}); F.conv2d({x}, {kernel});
    F.max_pool2d({x}, 2); F.avg_pool2d({x}, 2); F.adaptive_avg_pool2d({x}, 2); F.interpolate({x}, scale_factor=2.0, mode='bilinear')
"""
FAMILIES = (POINTWISE, POINTWISE, REDUCTIONS, REARRANGEMENTS, PRODUCTS)


@dataclass
class Program:
    """A function of tensors, as text, and the inputs of each call; those after the first are for larger sizes."""

    source: str
    calls: list[dict[str, Tensor]]
    gradients: bool

    def function(self, dtype: torch.dtype | None = None) -> Callable:
        """`dtype`: of whatever it converts to."""
        types = dict.fromkeys(DTYPES, dtype) if dtype is not None else DTYPES
        names: dict[str, Any] = {"torch": torch, "F": F, **types}
        exec(compile(self.source, "<program>", "exec"), names)
        return names["program"]

    def run(self, function: Callable, call: dict[str, Tensor], dtype: torch.dtype | None = None) -> list[Tensor]:
        """The results of `function`, this program's, and their gradients; `dtype`: of floating-point inputs."""
        inputs = [(x.to(dtype or x.dtype) if x.is_floating_point() else x).clone() for x in call.values()]
        if self.gradients:
            inputs = [x.requires_grad_(x.is_floating_point()) for x in inputs]
        results = list(function(*inputs))
        found = [y.detach() for y in results]
        if graded := [y for y in results if y.requires_grad]:
            sum(
                (y.double() * torch.linspace(0.5, 1.5, y.numel()).view(y.shape)).sum() / y.numel() ** 0.5
                for y in graded
            ).backward()
            found += [x.grad for x in inputs if x.grad is not None]
        return found


class Fields(dict[str, Any]):
    """Values for the fields of a step, chosen when a step asks for them."""

    def __init__(self, draft: "Draft", name: str):
        super().__init__(x=name)
        self.draft, self.random, self.value = draft, draft.random, draft.values[name]

    def __missing__(self, name: str) -> Any:
        self[name] = getattr(self, f"_{name}")()
        return self[name]

    def _dim(self) -> int:
        return self.random.randrange(self.value.dim())

    def _keep(self) -> bool:
        return self.random.random() < 0.5

    def _few(self) -> int:
        return self.random.randrange(3)

    def _order(self) -> list[int]:
        return self.random.sample(range(self.value.dim()), self.value.dim())

    def _dtype(self) -> str:
        return self.random.choice([*DTYPES])

    def _border(self) -> str:
        return self.random.choice(["reflect", "replicate", "circular"])

    def _y(self) -> str:
        return self.draft.pick(lambda v: v.is_floating_point() and self._goes_with(v))

    def _whole(self) -> str:
        return self.draft.pick(lambda v: not v.is_floating_point() and self._goes_with(v))

    def _goes_with(self, other: Tensor) -> bool:
        pairs = zip_longest(reversed(self.value.shape), reversed(other.shape), fillvalue=1)
        sizes = [max(a, b) for a, b in pairs if a == b or 1 in (a, b)]
        return len(sizes) == max(self.value.dim(), other.dim()) and prod(sizes) <= 4 * MOST

    def _rows(self) -> str:
        """Indices along `dim`."""
        return self.draft.new_input((5,), below=self.value.shape[self["dim"]])

    def _places(self) -> str:
        """As many indices along `dim` as there are rows of it, times 3."""
        sizes = list(self.value.shape)
        sizes[self["dim"]] = 3
        return self.draft.new_input(sizes, below=self.value.shape[self["dim"]])

    def _matrix(self) -> str:
        return self.draft.new_input((self.value.shape[-1], self.random.choice([1, 2, 8, 16])), self.value.dtype)

    def _kernel(self) -> str:
        return self.draft.new_input((2, self.value.shape[1], 1, 1), self.value.dtype)


@dataclass
class Draft:
    """A program under construction."""

    random: random.Random
    seed: int
    empty: bool  # whether results may have no elements
    scale: float = 1.0  # of the inputs
    special: bool = False  # whether inputs have a NaN and infinities, and results may
    # Sizes, dtype, and what indices are below.
    inputs: dict[str, tuple[list[int], torch.dtype, int]] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def pick(self, fits: Callable[[Tensor], bool]) -> str:
        """A value that fits, the later ones more often. Raises `IndexError` if there is none."""
        found = [name for name, value in self.values.items() if fits(value) and not self._is_index(name)]
        return self.random.choice(found + found[-3:])

    def _is_index(self, name: str) -> bool:
        return name in self.inputs and self.inputs[name][2] > 0

    def new_input(self, sizes: Any, dtype: torch.dtype = torch.int64, below: int = 0) -> str:
        name = f"i{len(self.inputs)}"
        self.inputs[name] = ([*sizes], dtype, below)
        self.values[name] = self.tensor(name, {})
        return name

    def tensor(self, name: str, larger: dict[int, int]) -> Tensor:
        """The input `name`, its sizes changed by `larger`; indices stay below what they were below."""
        sizes, dtype, below = self.inputs[name]
        generator = torch.Generator().manual_seed(1000 * self.seed + int(name[1:]))
        sizes = [larger.get(size, size) for size in sizes]
        if below:
            return torch.randint(0, below, sizes, generator=generator)
        made = torch.randn(sizes, generator=generator, dtype=torch.float64) * self.scale
        if self.special and made.numel() > len(SPECIAL):
            made.view(-1)[torch.randperm(made.numel(), generator=generator)[: len(SPECIAL)]] = made.new_tensor(SPECIAL)
        return made.to(dtype)

    def step(self) -> None:
        """Adds one, if what is drawn is one that eager takes."""
        known = len(self.inputs)
        try:
            steps = self.random.choice(FAMILIES)
            longest = LONGEST if steps is PRODUCTS else MOST
            name = self.pick(lambda v: v.is_floating_point() and max(v.shape, default=0) <= longest)
            text = self.random.choice(steps.split(";")).strip().format_map(Fields(self, name))
            result = eval(text, {"torch": torch, "F": F, **DTYPES}, dict(self.values))
        except (
            RuntimeError,
            ValueError,
            IndexError,
            NotImplementedError,
        ):  # eager takes no such step: another is drawn
            result = None
        least = 0 if self.empty else 1
        kept = result is not None and least <= result.numel() <= 4 * MOST
        if not kept or not (self.special or torch.isfinite(result.double()).all()):
            for extra in [*self.inputs][known:]:
                del self.inputs[extra], self.values[extra]
            return
        made = f"v{len(self.lines)}"
        self.lines.append(f"    {made} = {text}")
        self.values[made] = result

    def program(self) -> Program:
        made = [name for name in self.values if name.startswith("v")]
        returned = [name for name in made[:-1] if self.random.random() < 0.5] + made[-1:]
        source = "\n".join(
            [f"def program({', '.join(self.inputs)}):", *self.lines, f"    return {', '.join(returned)},", ""]
        )
        sizes = {size for sizes, *_ in self.inputs.values() for size in sizes if size > 1}
        calls = [{name: self.values[name] for name in self.inputs}]
        if self.random.random() < 0.5:
            larger = {size: size + self.random.choice([1, 2, 5, 8]) for size in sorted(sizes)}
            calls.append({name: self.tensor(name, larger) for name in self.inputs})
        return Program(source, calls, gradients=self.random.random() < 0.5)


def program(seed: int, *, empty: bool = False) -> Program:
    """The program of a seed; `empty`: one of the sizes of its inputs is 0."""
    draft = Draft(random.Random(seed), seed, empty)
    sizes = [draft.random.choice(SIZES) for _ in range(draft.random.choice([1, 2, 2, 3, 3, 4]))]
    while prod(sizes) > MOST:
        sizes[draft.random.randrange(len(sizes))] = 2
    if empty:
        sizes[draft.random.randrange(len(sizes))] = 0
    dtype = draft.random.choice([*DTYPES.values()])
    draft.scale = draft.random.choice([1.0, 1.0, 1.0, SMALL[dtype]])
    draft.special = draft.random.random() < 0.15
    for _ in range(draft.random.choice([1, 2, 3])):
        draft.new_input([size if draft.random.random() < 0.8 else 1 for size in sizes], dtype)
    wanted = draft.random.choice([4, 8, 12, 20])
    for _ in range(10 * wanted):
        if len(draft.lines) < wanted:
            draft.step()
    return draft.program()


def differences(program: Program, target: str) -> list[str]:
    """The differences from eager in the results of `program`, compiled for `target`."""
    torch._dynamo.reset()
    eager, dynamic = program.function(), len(program.calls) > 1
    compiled = torch.compile(eager, backend="bascule", dynamic=dynamic, options={"target": target, "on_error": "raise"})
    found = []
    for number, call in enumerate(program.calls):
        try:
            wanted = program.run(eager, call)
            exact, narrow = (program.run(program.function(t), call, t) for t in (torch.float64, torch.float32))
        except (RuntimeError, ValueError, IndexError):
            continue  # these sizes are none for the program
        for place, tensors in enumerate(zip(program.run(compiled, call), wanted, exact, narrow, strict=True)):
            found += accuracy.differences(f"call {number}, result {place}", *tensors)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--target", choices=["cpu", "interpret"], default="cpu")
    parser.add_argument("--empty", action="store_true", help="with a size of 0")
    parser.add_argument("--failures", type=Path, default=Path("program_failures"))
    arguments = parser.parse_args()
    wrong = 0
    for seed in range(arguments.seed, arguments.seed + arguments.programs):
        made = program(seed, empty=arguments.empty)
        try:
            found = differences(made, arguments.target)
        except Exception as error:  # is what was looked for: it is written down, and the other programs run
            found = [f"{type(error).__name__}: {error}"]
        if found:
            wrong += 1
            arguments.failures.mkdir(parents=True, exist_ok=True)
            remarks = "".join(f"# {line}\n" for text in found for line in text.splitlines())
            (arguments.failures / f"{seed}.py").write_text(remarks + made.source)
            print(f"{seed}: {found[0].splitlines()[0]}", flush=True)
    print(f"{arguments.programs} programs, {wrong} differ")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
