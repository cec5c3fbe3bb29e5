"""Programs whose sizes are symbols, of data (`nonzero`, `item()`) or of the inputs: one compiled function, called with 0, 1, 2 and more rows."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.generators.elementwise import differences

SIZES = (0, 1, 2, 3, 5, 8, 17, 130)
TARGETS = ("cpu", "cpu", "interpret")

# What makes a tensor `v` of two dimensions whose first size is a symbol. `x` is (n, 6), `w` (6,), `k` (3,) whole numbers of at least 0.
SOURCES = """
    x; x[x[:, 0] > 0]; x[torch.nonzero(x[:, 1] > 0.3).flatten()]; torch.nonzero(x > 0).float(); x[: x.shape[0] // 2]; x[x.shape[0] // 3 :];
    torch.masked_select(x, x > 0).unsqueeze(1) * w; torch.arange(k[0].item()).unsqueeze(1) * w; torch.ones(k[0].item(), 6) * w; x[::2];
    torch.repeat_interleave(w.unsqueeze(0).expand(3, 6), k, dim=0); x.repeat_interleave(2, 0);
    torch.cat([x, x[: x.shape[0] // 2]]); x.flip(0);
    x.new_full((max(x.shape[0] - 3, 0), 6), 0.5) + w; x[: min(x.shape[0], 4)]; x.reshape(-1, 2).repeat(1, 3); x.split(2)[-1];
    x[: k[0].item() % 3];
    torch.zeros((x.shape[0] * 5 + 3) // 4, 6) + w; x.tril(); torch.split(x.repeat(3, 1), [x.shape[0], 2 * x.shape[0]])[1]; x.roll(1, 0)
"""
# Of what is at hand, `v`; the result has two dimensions again.
STEPS = """
    v.sin() * 2; v * w.mean() + 1; v + v.shape[0]; v * v.sum(0); v - v.mean(1, True); v + v.sum(); torch.softmax(v, 1);
    v.cumsum(0); v.flip(0);
    torch.cat([v, v.cos()]); v[1:]; v[: v.shape[0] // 2]; v.reshape(-1, 2).repeat(1, 2); v.t().contiguous().t();
    F.pad(v, (1, 2, 2, 1)); v[v[:, 0] > 0];
    v @ torch.ones(v.shape[1], 4); v.unsqueeze(0).expand(2, -1, -1).flatten(0, 1); v.t() @ v; (v > 0).long().float();
    v.sort(0).values; v.square().sqrt();
    v.prod(1, keepdim=True); v.flatten().unsqueeze(1); v.unflatten(0, (1, -1)).sum(0); v.repeat(2, 1); v.any(1, True).float();
    v.logsumexp(1, True);
    torch.where(v > 0, v, v.shape[0]); v[torch.nonzero(v[:, 0] <= 0).flatten()]; v.norm(dim=1, keepdim=True);
    v.masked_fill(v > 0.5, -1.0); v.cummax(1).values;
    v.view(-1).unsqueeze(0); v.tril(1); v.std(1, correction=0, keepdim=True); v.roll(1, 0); v.new_zeros(v.shape[0] * 2 + 1, 3);
    v[: int(v.shape[0] / 2 % 3) + 1]; v.repeat(int(v.shape[0] / 2 % v.shape[1]) + 1, 1);
    F.interpolate(v[:, None], scale_factor=2)[:, 0]; F.interpolate(v[:, None, None], scale_factor=(1, 3), mode="bilinear").flatten(1);
    F.max_pool1d(v[:, None], 2, 1, 1)[:, 0]; F.avg_pool1d(v[:, None], 2, 1, 1)[:, 0]; F.adaptive_avg_pool1d(v[:, None], 3)[:, 0];
    F.conv1d(v[:, None], torch.ones(2, 1, 2), padding=1).flatten(1); F.pad(v[:, None], (1, 1), mode="replicate")[:, 0];
    F.group_norm(v[:, None], 1)[:, 0]; v[:, None].bmm(v[:, :, None])[:, 0]
"""
# Of a number `n` that a size or data gives, whole or not.
NUMBERS = (
    "v.shape[0]",
    "(v.shape[0] + 1) / 2",
    "w[0].item()",
    "k[0].item()",
    "(v.shape[0] / 2 % 3)",
    "(-v.shape[0] / 2 % v.shape[1])",
)
BY_NUMBERS = """
    F.leaky_relu(v, n); F.elu(v, n); F.celu(v, n + 1); F.threshold(v, n, 2.0); F.threshold(v, 0.1, n); F.softplus(v, n + 1);
    F.hardtanh(v, -n - 9, n);
    F.softshrink(v, abs(n)); F.hardshrink(v, n); v.clamp(max=n); v.clamp(-n - 9, n); v.std(1, correction=n, keepdim=True);
    v.abs() ** n; n ** v.abs();
    torch.linalg.vector_norm(v, n + 3, 1, True); v.index_add(1, torch.tensor([0, 0]), v[:, :2], alpha=n); torch.add(v, v, alpha=n);
    torch.renorm(v, 2, 0, abs(n) + 1); torch.nan_to_num(v, n, n, n); torch.lerp(v, v.flip(0), n); torch.addcmul(v, v, v, value=n);
    v.masked_fill(v > 0, n); v.index_fill(1, torch.tensor([0]), n); F.pad(v, (1, 1), value=n); torch.logit(v.sigmoid(), abs(n) / 99);
    F.layer_norm(v, v.shape[1:], eps=abs(n) + 1); torch.cdist(v, v, p=abs(n) + 1); F.dropout(v, n * 0.0);
    torch.histc(v, 4, -abs(n) - 1, abs(n) + 1)[None];
    v * n % 3; (v * 4).long() * n + 0.5; torch.where(v > 0, v, n); v.new_full((2, 3), n); torch.linspace(0, n, 5)[None] * w[0]
"""
# What ends a program: also over a dimension that may have no elements.
ENDS = """
    v; v.sum(0); v.sum(); v.prod(0); v.mean(); v.any(0); v.all(); v.count_nonzero(); v.logsumexp(0); v.sum(1); v.shape[0] * w;
    v.amax(1); v.numel() + w;
    v.norm(); v.cumsum(1); v.var(1); v.argmax(1); torch.softmax(v, 0)
"""


def _choices(text: str) -> list[str]:
    return [step.strip() for step in text.split(";")]


def _by_number(step: str, number: str) -> str:
    return re.sub(r"\bn\b", f"({number})", step)


@dataclass(frozen=True)
class Dynamic:
    """A program of `steps`, called with an `x` of each of `sizes` rows, and other numbers of data in each call."""

    steps: tuple[str, ...]
    sizes: tuple[int, ...]
    seed: int
    target: str
    dynamic: bool | None

    def program(self) -> str:
        lines = [f"    v = {step}" for step in self.steps]
        return "\n".join(["def program(x, w, k):", *lines, "    return v", ""])

    def function(self) -> Callable[..., Tensor]:
        names = {"torch": torch, "F": F}
        exec(compile(self.program(), "<program>", "exec"), names)
        return names["program"]

    def terms(self, inputs: list[Tensor]) -> float:
        """The largest magnitude of what the last step is given: it may be sums of these that cancel."""
        if len(self.steps) == 1:
            return 0.0
        found = replace(self, steps=self.steps[:-1]).function()(*inputs)
        finite = found[found.isfinite()]
        return finite.abs().max().item() if finite.numel() else 0.0

    def inputs(self, number: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(self.seed + number)
        x, w = (torch.randn(shape, generator=generator) for shape in ((self.sizes[number], 6), (6,)))
        return [x - 3 * (self.seed % 4 == number), w, torch.randint(0, 4, (3,), generator=generator)]

    def differences(self, backend: str) -> list[str]:
        torch._dynamo.reset()
        options = {"target": self.target, "on_error": "raise"} if backend == "bascule" else None
        compiled = torch.compile(self.function(), backend=backend, dynamic=self.dynamic, options=options)
        found = []
        with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
            for number, size in enumerate(self.sizes):
                found += [f"{size} rows: {text}" for text in self._differences(compiled, self.inputs(number))]
        return found

    def _differences(self, compiled: Callable[..., Tensor], inputs: list[Tensor]) -> list[str]:
        try:
            want = self.function()(*inputs)
        except (RuntimeError, IndexError, ValueError) as error:
            return self._refused(compiled, inputs, error)
        best = self.function()(*(x.double() if x.is_floating_point() else x for x in inputs))
        terms, sums = self.terms(inputs), max(2, want.numel())
        return differences("result", compiled(*inputs), want, best, ulps=64, sums=sums, largest=terms)

    @staticmethod
    def _refused(compiled: Callable[..., Tensor], inputs: list[Tensor], error: Exception) -> list[str]:
        try:
            got = compiled(*inputs)
        except Exception:  # as eager does, in words of its own
            return []
        return [f"{got.dtype} {[*got.shape]}, where eager raises {type(error).__name__}: {error}"]

    def smaller(self) -> Iterator["Dynamic"]:
        for number in range(len(self.steps)):
            if len(self.steps) > 1 and number:
                yield replace(self, steps=self.steps[:number] + self.steps[number + 1 :])
        for number in range(len(self.sizes)):
            if len(self.sizes) > 1:
                yield replace(self, sizes=self.sizes[:number] + self.sizes[number + 1 :])

    def source(self) -> str:
        return f"# {self}\nimport torch\nfrom torch.nn import functional as F\n\n\n{self.program()}"


def draw(random: Random) -> Dynamic:
    steps = [random.choice(_choices(SOURCES)), *random.choices(_choices(STEPS), k=random.randrange(3))]
    if random.random() < 0.3:
        steps.append(_by_number(random.choice(_choices(BY_NUMBERS)), random.choice(NUMBERS)))
    return Dynamic(
        steps=(*steps, random.choice(_choices(ENDS))),
        sizes=tuple(random.sample(SIZES, 3)),
        seed=random.randrange(1 << 30),
        target=random.choice(TARGETS),
        dynamic=random.choice([None, True]),
    )
