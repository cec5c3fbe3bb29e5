"""Reductions, scans, normalizations and sorts of tensors of no dimension, of one element and of none, whose elements may be NaN or infinite."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from tests.generators.elementwise import differences

SHAPES = ((), (), (1,), (1, 1), (3, 1), (1, 3), (0,), (2, 0), (0, 2), (0, 2, 3))
VALUES = (float("nan"), float("inf"), -float("inf"), 1.5, -0.0, -2.0)
DTYPES = ("float32", "float32", "float64", "bfloat16", "int64", "uint8", "bool")
STEPS = """
    x.sum({d}); x.sum(); x.mean({d}); x.prod({d}); x.amax({d}); x.amin(); x.max({d}); x.min(); x.argmax({d}); x.argmin(); x.any({d}); x.all();
    x.nansum({d}); x.nanmean(); x.count_nonzero({d}); torch.aminmax(x); x.std({d}, correction=0); x.var(correction=0); x.var({d});
    torch.var_mean(x, {d}, correction=0); x.std(); x.logsumexp({d}); x.norm(); x.norm(1, {d}); x.norm(float('inf')); x.norm(0);
    x.cumsum({d}); x.cumprod({d}); x.cummax({d}); x.cummin({d}); x.logcumsumexp({d}); x.sort({d}, stable=True); x.argsort({d}, stable=True);
    x.topk(1, {d}); x.median({d}); x.flip({d}); x.roll(1, {d}); x.softmax({d}); x.log_softmax({d}); F.softmin(x, {d}); F.normalize(x, dim={d});
    F.layer_norm(x, x.shape[-1:]); torch.rms_norm(x, x.shape[-1:]); F.glu(torch.cat([x, x], {d}), {d}); x.diff(dim={d}); x.tril(); x.trace();
    x.unsqueeze({d}); x.squeeze({d}); x.squeeze(); x.expand(2, *x.shape); x.repeat(2, *[1] * x.dim()); x.index_select({d}, i); x.gather({d}, z);
    x.scatter({d}, z, x); x.scatter_add({d}, z, x); x.index_add({d}, i, x); x.index_fill({d}, i, 1); x.take(i); x.reshape(-1); x.unbind({d});
    x.narrow({d}, 0, 1); x.select({d}, 0); torch.stack([x, x], {d}); torch.cat([x.reshape(-1), x.reshape(-1)]); x @ x; x - x; x / x; x * 0;
    F.mse_loss(x, x); F.cross_entropy(x, z); torch.searchsorted(x, x); x.histc(3, -1, 2); x.unique(); x.nonzero(); x.masked_select(x > 0)
"""
BEFORE = ("", "", "x = x * 1", "x = x.mean()", "x = x.sum(0)", "x = x.reshape(())", "x = x[:1]")


@dataclass(frozen=True)
class Single:
    """`before`, then `step`, of `x` of `shape`, whose elements are `values` in turn; `i` is a zero, `z` one for each element."""

    before: str
    step: str
    shape: tuple[int, ...]
    values: tuple[float, ...]
    dtype: str
    dynamic: bool
    target: str

    def program(self) -> str:
        return f"def program(x, i):\n    {self.before or 'pass'}\n    z = torch.zeros_like(x, dtype=torch.int64)\n    return {self.step}\n"

    def source(self) -> str:
        return (
            f"# {self.program()!r}\nnan, inf = float('nan'), float('inf')\nfrom tests.generators.single_elements import Single\n\n"
            f"print({self!r}.differences('bascule'))\n"
        )

    def inputs(self) -> tuple[Tensor, Tensor]:
        count, dtype = torch.Size(self.shape).numel(), getattr(torch, self.dtype)
        numbers = torch.tensor([self.values[n % len(self.values)] for n in range(count)])
        x = (numbers if dtype.is_floating_point else numbers.nan_to_num(3, 2, 1).abs()).to(dtype).view(self.shape)
        return x.requires_grad_(dtype.is_floating_point), torch.zeros(1, dtype=torch.int64)

    def function(self) -> Callable[[Tensor, Tensor], Tensor]:
        names = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.program(), "<program>", "exec"), names)
        return names["program"]

    def results(self, function: Callable) -> list[Tensor]:
        x, i = self.inputs()
        results = tree_leaves(function(x, i))
        graded = [result for result in results if result.requires_grad]
        if graded:
            sum(result.sum() for result in graded).backward()
        return [*(result.detach() for result in results), torch.zeros_like(x) if x.grad is None else x.grad]

    def differences(self, backend: str) -> list[str]:
        torch._dynamo.reset()
        try:
            want = self.results(self.function())
        except Exception:  # eager has none of the dtype, or of the shape: each operator refuses in its own way
            return []
        options = {"target": self.target, "on_error": "raise"} if backend == "bascule" else None
        got = self.results(torch.compile(self.function(), backend=backend, options=options, dynamic=self.dynamic))
        if len(got) != len(want):
            return [f"{len(got)} results, not {len(want)}"]
        return [
            line
            for number, pair in enumerate(zip(got, want))
            for line in differences(f"result {number}", *pair, ulps=16, sums=4, zero_signs=False)
        ]

    def smaller(self) -> Iterator["Single"]:
        if self.before:
            yield replace(self, before="")
        if self.dynamic:
            yield replace(self, dynamic=False)
        if len(self.values) > 1:
            yield replace(self, values=self.values[:1])


def draw(random: Random) -> Single:
    steps = [step.strip() for step in STEPS.split(";")]
    return Single(
        before=random.choice(BEFORE),
        step=random.choice(steps).format(d=random.choice([0, -1])),
        shape=random.choice(SHAPES),
        values=tuple(random.choice(VALUES) for _ in range(random.choice([1, 3]))),
        dtype=random.choice(DTYPES),
        dynamic=random.random() < 0.2,
        target=random.choice(["cpu", "interpret"]),
    )
