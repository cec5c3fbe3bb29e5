"""Products of operands of few bits, for `benchmarks/products.py`: weights of 8 bits, floats and integers of 8 bits."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Make = Callable[[int, int, int], tuple[Callable[..., Tensor], list[Tensor]]]
E4M3, BF16 = torch.float8_e4m3fn, torch.bfloat16


def floats(*sizes: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*sizes, device="cuda").to(dtype)


def integers(*sizes: int) -> Tensor:
    return torch.randint(-128, 128, sizes, device="cuda", dtype=torch.int8)


def scales(*sizes: int) -> Tensor:
    return torch.rand(*sizes, device="cuda") / 64


def scaled(fast: bool) -> Callable[..., Tensor]:
    def run(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return F.relu(torch._scaled_mm(x, w.t(), a, b, out_dtype=BF16, use_fast_accum=fast))

    return run


def exact_scaled(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return F.relu((x.float() @ w.float().t()) * a * b)


def of_floats(m: int, k: int, n: int) -> list[Tensor]:
    return [floats(m, k, dtype=E4M3), floats(n, k, dtype=E4M3), scales(m, 1), scales(1, n)]


def weights(m: int, k: int, n: int) -> list[Tensor]:
    return [floats(m, k), integers(n, k), scales(n).to(BF16)]


WEIGHTS = (
    (8192, 4096, 16384),
    (8192, 4096, 4096),
    (256, 4096, 16384),
    (16, 4096, 16384),
    (1, 4096, 16384),
    (1, 4096, 4096),
)
LARGE = ((8192, 4096, 16384), (8192, 4096, 4096))
CASES: dict[str, Make] = {
    "int8 weight": lambda m, k, n: (lambda x, w, s: F.linear(x, w.to(BF16)) * s, weights(m, k, n)),
    "int8 scaled weight": lambda m, k, n: (lambda x, w, s: F.linear(x, w.to(BF16) * s[:, None]), weights(m, k, n)),
    "fp8 rows + relu": lambda m, k, n: (scaled(False), of_floats(m, k, n)),
    "fp8 rows + relu, fast": lambda m, k, n: (scaled(True), of_floats(m, k, n)),
    "int8 product": lambda m, k, n: (
        lambda x, w, a, b: (torch._int_mm(x, w.t()) * a * b).to(BF16),
        [integers(m, k), integers(n, k), scales(m, 1), scales(n)],
    ),
}
SIZES = {name: WEIGHTS if "weight" in name else LARGE for name in CASES}
# What those compute that are no functions of their operands widened to f32.
EXACT: dict[str, Callable[..., Tensor]] = {
    "int8 weight": lambda x, w, s: F.linear(x, w) * s,
    "int8 scaled weight": lambda x, w, s: F.linear(x, w * s[:, None]),
    "fp8 rows + relu": exact_scaled,
    "fp8 rows + relu, fast": exact_scaled,
    "int8 product": lambda x, w, a, b: (x.double() @ w.double().t()).float() * a * b,
}
