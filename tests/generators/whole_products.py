"""Products of integers and booleans of all sizes, few rows among them: every bit as eager's, which has the low ones of each sum."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

from tests.generators.elementwise import differences

DTYPES = ("int8", "uint8", "int16", "int32", "int64", "bool")
PRODUCTS = (
    "a @ b",
    "(b.t() @ a.t()).t()",
    "torch.bmm(a.expand(2, *a.shape), b.expand(2, *b.shape))",
    "torch.addmm(c, a, b)",
    "torch.addmm(c[:1], a, b, beta=2, alpha=3)",
    "torch.addmm(c[:, :1], a, b, beta=-1, alpha=-200)",
    "torch.baddbmm(c[None], a[None], b[None], beta=2, alpha=5)",
    "torch.mv(a, b[:, 0])",
    "torch.addmv(c[:, 0], a, b[:, 0], beta=3)",
    "torch.dot(a[0], b[:, 0])",
    "torch.nn.functional.linear(a, b.t(), c[0])",
    "torch.einsum('ik,kj->ji', a, b)",
    "torch.einsum('ik,ik->i', a, a)",
)
AFTER = ("", ".to(torch.int32) * 2", " + c[:1, :1]", ".sum(0)")


@dataclass(frozen=True)
class Product:
    """`text` of `a` and `b`, which have `sizes` (rows, summed, columns), and of `c`, which has those of the result."""

    text: str
    dtype: str
    sizes: tuple[int, int, int]
    seed: int
    target: str

    def source(self) -> str:
        return f"from tests.generators.whole_products import Product\n\nprint({self!r}.differences('bascule'))\n"

    def inputs(self) -> list[Tensor]:
        dtype, random = getattr(torch, self.dtype), torch.Generator().manual_seed(self.seed)
        low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        rows, summed, columns = self.sizes
        shapes = ((rows, summed), (summed, columns), (rows, columns))
        return [torch.randint(low, high, shape, generator=random, dtype=torch.int64).to(dtype) for shape in shapes]

    def function(self) -> Callable[..., Tensor]:
        names = {"torch": torch}
        exec(compile(f"def program(a, b, c):\n    return ({self.text})\n", "<program>", "exec"), names)
        return names["program"]

    def differences(self, backend: str) -> list[str]:
        torch._dynamo.reset()
        try:
            want = self.function()(*self.inputs())
        except (RuntimeError, NotImplementedError):  # eager has none of the dtype
            return []
        options = {"target": self.target, "on_error": "raise"} if backend == "bascule" else None
        got = torch.compile(self.function(), backend=backend, options=options)(*self.inputs())
        return differences("result", got, want)

    def smaller(self) -> Iterator["Product"]:
        for place, size in enumerate(self.sizes):
            if size > 1:
                yield replace(self, sizes=(*self.sizes[:place], size // 2, *self.sizes[place + 1 :]))


def draw(random: Random) -> Product:
    product = random.choice(PRODUCTS)
    return Product(
        text=f"({product}){random.choice(AFTER)}",
        dtype=random.choice(DTYPES),
        sizes=tuple(random.choice([1, 1, 2, 3, 7, 16, 33, 64, 300]) for _ in range(3)),
        seed=random.randrange(1 << 30),
        target=random.choice(["cpu", "interpret", "interpret"]),
    )
