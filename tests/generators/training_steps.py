"""Random training steps within random memory budgets: the bits of the same step without a budget, and a peak that keeps it.

A sum may be added up in another order where its kernel computes what it adds, rather than reads it: bits are the same where an order is imposed
on all sums of both. Chunks of rows add up partial results, whatever the order of each.

Steps are residual layers of what models consist of: products, normalizations, activations, attention, dropouts, convolutions, reductions.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import torch
from bascule.dialect.ir.attributes import i64
from bascule.dialect.mlir import ir
from bascule.dialect.steering.hooks import Hooks, Scheduling
from bascule.dialect.steering.schedule_changes import changed
from bascule.runtime import release_arenas

import bascule
from bascule.errors import UserError
from benchmarks.memory import peak_bytes

LAYERS = {
    "linear": "x = x + f.gelu(x @ w[0]) @ w[1]",
    "norm": "x = f.layer_norm(x, x.shape[-1:], w[2][0], w[2][1])",
    "dropout": "x = x + f.dropout(torch.tanh(x @ w[0]), 0.2)",
    "attention": "q = (x @ w[0]).unflatten(0, (4, -1)); x = x + (torch.softmax(q @ q.mT * 0.1, -1) @ q).flatten(0, 1)",
    "gate": "x = x * torch.sigmoid(x @ w[1]) + f.silu(x)",
    "widen": "y = torch.cat([x, torch.sin(x).square()], -1); x = x + torch.relu(y @ torch.cat([w[0], w[1]]))",
    "rows": "x = x - torch.logsumexp(x, -1, keepdim=True) * (x.amax(0) - x.mean(0))",
    "convolution": "x = x + f.conv1d(x.t()[None], w[2][:, :, None], padding=0)[0].t()",
    "sorted": "x = x + torch.sort(x @ w[0], 0).values * 0.1",
    "twice": "y = torch.exp(-x.abs()); x = x + (y @ w[0]) * y + torch.sin(y @ w[1])",
}
BESIDE = 512  # bytes that PyTorch makes beside what is compiled: the loss's own gradient, a scalar or two


class OneOrder(Hooks):
    """Has each reduction add one element after the other, in the order of its own indices, whatever is computed in its kernel."""

    def schedule(self, scheduling: Scheduling) -> ir.DictAttr:
        loops = ir.ArrayAttr(scheduling.default["loops"])
        return changed(scheduling.default, loops=ir.ArrayAttr.get(list(map(self._in_order, loops))))

    @staticmethod
    def _in_order(loop: ir.DictAttr) -> ir.DictAttr:
        if "joins" in loop:
            return loop
        apart = [ir.DenseI64ArrayAttr.get([index]) for group in loop["groups"] for index in group]
        return ir.DictAttr.get({"groups": ir.ArrayAttr.get(apart), "vector": i64(-1), "lanes": i64(1)})


@dataclass(frozen=True)
class Step:
    """`layers`: names of `LAYERS`; `part`: the budget, of the peak without one; `in_bytes`: it is given as so many bytes."""

    layers: tuple[str, ...]
    rows: int
    width: int
    part: float
    seed: int
    in_bytes: bool = False

    def text(self) -> str:
        lines = [f"    w = weights[{n}]\n    {LAYERS[name]}\n" for n, name in enumerate(self.layers)]
        return (
            "def step(x, weights):\n    f = torch.nn.functional\n" + "".join(lines) + "    return x.square().mean()\n"
        )

    def source(self) -> str:
        return f"import torch\nfrom tests.generators.training_steps import Step\n\n# {self.text()!r}\nprint({self!r}.differences('bascule'))\n"

    def function(self) -> Callable:
        namespace: dict = {"torch": torch}
        exec(compile(self.text(), f"<training step {self.seed}>", "exec"), namespace)
        return namespace["step"]

    def inputs(self) -> tuple[torch.Tensor, list[torch.Tensor]]:
        generator = torch.Generator().manual_seed(self.seed)
        make = partial(torch.randn, generator=generator)
        weights = [0.2 * make(3, self.width, self.width) for _ in self.layers]
        return make(self.rows, self.width), [torch.nn.Parameter(w) for w in weights]

    def run(self, budget: float | int | str | None, **given: Any) -> tuple[list[torch.Tensor], int]:
        """The loss and the gradients of the second step; the bytes that two later ones hold at most, with what they are given."""
        torch._dynamo.reset()
        x, weights = self.inputs()
        options = {"on_error": "raise", "cache": False, **given} | ({} if budget is None else {"memory_budget": budget})
        compiled = torch.compile(self.function(), backend="bascule", options=options, dynamic=False)

        def step() -> torch.Tensor:
            torch.manual_seed(self.seed)
            for weight in weights:
                weight.grad = None
            loss = compiled(x, weights)
            loss.backward()
            return loss.detach()

        step()
        used = [weight for weight in weights if weight.grad is not None]
        found = [step(), *(weight.grad.clone() for weight in used)]
        for weight in weights:
            weight.grad = None
        release_arenas()
        held = sum(each.numel() * each.itemsize for each in (x, *used))
        return found, held + peak_bytes(lambda: (step(), step()))

    def differences(self, backend: str) -> list[str]:
        if backend != "bascule" or {*self.layers} <= {"rows"}:  # which has no weights: nothing is differentiated
            return []
        want, without = self.run(None)
        budget: float | int = int(self.part * without) if self.in_bytes else self.part
        try:
            got, peak = self.run(f"{budget} B" if self.in_bytes else budget)
        except UserError as error:
            budget = int(re.search(r"\((\d+) bytes\) at least", str(error))[1])
            got, peak = self.run(budget)  # what is named as the least is possible
        most = budget if isinstance(budget, int) else int(budget * without)
        if peak > most + BESIDE and isinstance(budget, float):
            most = int(budget * self.planned())
        found = [f"a peak of {peak} bytes with a budget of {most}, {without} without"] if peak > most + BESIDE else []
        wrong = [n for n, (a, b) in enumerate(zip(got, want)) if not torch.equal(a, b)]
        far = [n for n in wrong if not (got[n] - want[n]).abs().max() <= 1e-5 * want[n].abs().max()]
        if wrong and not far and not self.by_chunks(budget):
            (got, _), (want, _) = (self.run(each, hooks=OneOrder()) for each in (budget, None))
            far = [n for n, (a, b) in enumerate(zip(got, want)) if not torch.equal(a, b)]
        return found + ([f"other bits in {far} of the loss and {len(want) - 1} gradients"] if far else [])

    def planned(self) -> int:
        """The bytes at the peak without a budget, as plans tell: operators of PyTorch's may take less than is counted."""
        torch._dynamo.reset()
        return bascule.memory(self.function(), *self.inputs()).steps[0].peak

    def by_chunks(self, budget: float | int) -> bool:
        torch._dynamo.reset()
        told = bascule.explain(self.function(), *self.inputs(), options={"memory_budget": budget}).graphs
        return any("by chunks of its rows" in str(remark) for graph in told for remark in graph.remarks)

    def smaller(self) -> Iterator["Step"]:
        for n in range(len(self.layers)):
            if len(self.layers) > 1:
                yield replace(self, layers=self.layers[:n] + self.layers[n + 1 :])


def draw(random: Random) -> Step:
    layers = tuple(random.choice([*LAYERS]) for _ in range(random.randint(2, 7)))
    rows, width = random.choice((64, 256, 2048)), random.choice((32, 48, 64))
    part, seed = random.choice((1.0, 0.9, 0.8, 0.65, 0.5, 0.3)), random.randrange(1 << 30)
    return Step(layers, rows, width, part, seed, random.random() < 0.5)
