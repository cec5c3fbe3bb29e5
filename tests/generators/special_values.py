"""An operator, or a short chain of them, on tensors of special values: subnormals, infinities, NaN, zeros of both signs, extremes and ties.

What C leaves undefined is not asked for: floats are converted to integers within their range, and integers are divided by other numbers than 0.
Sums and products have no extremes among their terms, whose order decides whether they overflow or vanish.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import mpmath
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.generators.elementwise import differences

FLOATS = ("float64", "float32", "float16", "bfloat16")
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "bool")
TARGETS = ("cpu", "interpret")

UNARY = """
    torch.sin({x}); torch.cos({x}); torch.tan({x}); torch.exp({x}); torch.exp2({x}); torch.expm1({x}); torch.log({x});
    torch.log2({x}); {x} + 0.3;
    torch.log10({x}); torch.log1p({x}); torch.sqrt({x}); torch.rsqrt({x}); torch.sigmoid({x}); torch.tanh({x}); torch.sinh({x});
    torch.cosh({x});
    torch.asinh({x}); torch.atanh({x}); torch.asin({x}); torch.acos({x}); torch.atan({x}); torch.erf({x}); torch.erfc({x});
    torch.floor({x});
    torch.ceil({x}); torch.trunc({x}); torch.round({x}); torch.frac({x}); torch.sign({x}); torch.sgn({x}); torch.abs({x}); -{x}; {x} * 0.3;
    torch.reciprocal({x}); torch.square({x}); torch.isnan({x}); torch.isinf({x}); torch.isfinite({x}); torch.isposinf({x});
    torch.signbit({x});
    F.relu({x}); F.relu6({x}); F.hardsigmoid({x}); F.hardswish({x}); F.leaky_relu({x}, 0.1); F.threshold({x}, 0.5, 2.0);
    F.elu({x}); F.celu({x}, 1.5);
    F.selu({x}); F.gelu({x}); F.silu({x}); F.mish({x}); F.softplus({x}); F.softsign({x}); F.logsigmoid({x}); torch.nan_to_num({x});
    {x}.clamp(-1, 1); {x}.clamp(min=0.5); {x}.clamp(max=0.0); torch.sinc({x}); {x} ** 2; {x} ** 0.5; {x} ** -1; {x} ** 3;
    {x} ** 1.7; 1.7 ** {x};
    1 / {x}; {x} / 3; torch.fmod({x}, 0.75); torch.remainder({x}, 0.75); torch.lgamma({x}); torch.special.i0({x}); torch.logit({x}, 0.1);
    {x}.to(torch.bool); {x}.to(torch.float16); {x}.to(torch.bfloat16); {x}.to(torch.float32);
    {x}.nan_to_num().clamp(-100, 100).to(torch.int32);
    {x}.nan_to_num().clamp(0, 100).to(torch.uint8); {x}.nan_to_num().clamp(-100, 100).to(torch.int64);
    F.softshrink({x}, 0.7); F.hardshrink({x}, 0.7); F.tanhshrink({x}); F.hardtanh({x}, -0.7, 0.7); {x} ** -0.5; {x} ** -2; {x} ** 0
"""
# A number that is none, or infinite, or none of the dtype's, as the user's argument.
NUMBERS = ("float('nan')", "float('inf')", "-float('inf')", "-0.0", "1e-320", "2.5")
BY_NUMBERS = """
    {x} + {n}; {x} * {n}; {x} / {n}; {n} / {x}; {x} ** {n}; {n} ** {x}; torch.clamp({x}, {n}); torch.clamp({x}, max={n}); {x} == {n}; {x} < {n};
    torch.where({x} > 0, {x}, {n}); {x}.masked_fill({x} > 0, {n}); torch.add({x}, {x}, alpha={n});
    torch.lerp({x}, {x} + 1, {n}); F.threshold({x}, {n}, 1.0); F.threshold({x}, 0.5, {n}); F.leaky_relu({x}, {n});
    torch.nan_to_num({x}, {n}, {n});
    torch.fmod({x}, {n}); torch.remainder({x}, {n}); torch.xlogy({x}, {n}); torch.xlogy({n}, {x}); torch.copysign({x}, {n}); F.elu({x}, {n});
    torch.full_like({x}, {n}) + {x}; F.pad({x}, (1, 1), value={n})
"""
BINARY = """
    {x} + {y}; {x} - {y}; {x} * {y}; {x} / {y}; torch.fmod({x}, {y}); torch.remainder({x}, {y}); torch.div({x}, {y}, rounding_mode='floor');
    torch.div({x}, {y}, rounding_mode='trunc'); torch.pow({x}, {y}); torch.atan2({x}, {y}); torch.copysign({x}, {y});
    torch.maximum({x}, {y});
    torch.minimum({x}, {y}); torch.fmax({x}, {y}); torch.fmin({x}, {y}); torch.hypot({x}, {y}); torch.logaddexp({x}, {y});
    torch.heaviside({x}, {y});
    {x} == {y}; {x} < {y}; {x} >= {y}; torch.where({x} > {y}, {x}, {y}); torch.xlogy({x}, {y}); torch.clamp({x}, max={y});
    torch.nextafter({x}, {y}); torch.lerp({x}, {y}, 0.3); F.l1_loss({x}, {y}, reduction='none');
    F.mse_loss({x}, {y}, reduction='none'); F.smooth_l1_loss({x}, {y}, reduction='none', beta=0.7);
    F.huber_loss({x}, {y}, reduction='none', delta=0.7); F.soft_margin_loss({x}, {y}, reduction='none');
    F.binary_cross_entropy_with_logits({x}, {y}, reduction='none'); F.poisson_nll_loss({x}, {y}, reduction='none');
    F.kl_div({x}, {y}, reduction='none'); F.hinge_embedding_loss({x}, {y}, reduction='none'); F.prelu({x}, {y}[:1, :1].flatten())
"""
EXTREMES = """
    {x}.amax(1); {x}.amin(0); {x}.argmax(1); {x}.argmin(1); {x}.max(1).indices; {x}.min(0).values; {x}.cummax(1).indices;
    {x}.cummin(1).values;
    {x}.sort(1, stable=True).values; {x}.sort(1, stable=True).indices; {x}.any(1); {x}.all(0); {x}.count_nonzero(1);
    torch.norm({x}, float('inf'), 1);
    F.max_pool2d(torch.where({x} > 1, {x}, -float('inf'))[None], (1, 3), 1, (0, 1), 2, return_indices=True)[1];
    F.max_pool2d(torch.where({x} > 1, {x}, -float('inf'))[None], (1, 3), 1, (0, 1), 2)
"""
SUMS = """
    {x}.sum(1); {x}.prod(1); {x}.cumsum(1); {x}.nansum(1); {x}.mean(0); {x}.logsumexp(1); torch.softmax({x}, 1); torch.log_softmax({x}, 1);
    {x}.std(1, correction=0); {x}[:, :1].var(1, correction=0); {x}[:, :1].var(1); {x}.logcumsumexp(1); {x}.norm(2, 1);
    F.normalize({x}, dim=1)
"""
WHOLE_STEPS = """
    {x} + {y}; {x} * {y}; {x} & {y}; {x} ^ {y}; ~{x}; {x} == {y}; {x} < {y}; torch.maximum({x}, {y}); torch.minimum({x}, {y});
    {x} / 3; {x}.bool();
    {x}.to(torch.float32); {x}.to(torch.int8); {x}.to(torch.uint8); {x}.to(torch.int32); {x}.to(torch.int64);
    {x}.to(torch.bfloat16); {x}.sum(1);
    {x}.amax(1); {x}.amin(0); {x}.argmax(1); {x}.prod(1); {x}.cumsum(1); {x}.sort(1, stable=True).values; {x}.cummax(1).values;
    torch.sigmoid({x})
"""
# No divisor is -1: of the least number it ends the process, in eager too.
SIGNED_STEPS = """
    {x} - {y}; -{x}; torch.abs({x}); torch.sign({x}); {x} << ({y} & 7); {x} >> ({y} & 7); {x} ** ({y} & 3); {x} ** 3;
    torch.fmod({x}, ({y} | 1) * 3); torch.remainder({x}, ({y} | 1) * 3); {x} // (({y} | 1) * 3);
    torch.div({x}, ({y} | 1) * 3, rounding_mode='trunc'); {x} // 3; {x} % 5; {x}.clamp(-3, 100)
"""


# Before what chooses among numbers: each gives numbers without a rounding, or as eager rounds them.
CHAINED = [
    "-{x}",
    "torch.abs({x})",
    "F.relu({x})",
    "torch.maximum({x}, {y})",
    "{x}.clamp(-1, 1)",
    "torch.where({x} > {y}, {x}, {y})",
]


BOUNDS = ("max", "min", "clamp", "relu", "hard", "threshold", "sort")

# Slopes that eager's own f64 has only to 1e-16 of the terms that it adds: those of `lgamma` near digamma's zeros.
SLOPES = {"torch.lgamma({x})": mpmath.digamma}


# Operators whose slopes are differences of terms of about 1: where less is left, as of 1 - tanh(x)**2, eager's own has no more of it.
CANCELLING = ("tanh", "sigmoid", "gelu", "silu", "mish")


def _steps(text: str) -> list[str]:
    return [step.strip() for step in text.split(";")]


def values(dtype: torch.dtype, *, extremes: bool) -> list[float]:
    """The special values of a dtype; each is one of its numbers."""
    if not dtype.is_floating_point:
        if dtype == torch.bool:
            return [0, 1]
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        return [0, 1, 2, 3, 7, 8, 100, most, most - 1, *([least, least + 1, -1, -2, -7] if least else [255])]
    info = torch.finfo(dtype)
    mild = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 1 / 3, 0.7, 6.0, 7.25, info.eps, 1 + info.eps]
    large = [info.max, info.max / 2, info.tiny, info.tiny / 4, 1 / info.eps, 88.5] if extremes else []
    return [sign * x for x in [*mild, *large, float("inf")] for sign in (1, -1)] + [float("nan")]


@dataclass(frozen=True)
class Special:
    """`steps` over the inputs `x` and `y`, each of `shape` and drawn from `values(dtype)` with `seed`; a step's result is `x` for the next."""

    steps: tuple[str, ...]
    dtype: str
    shape: tuple[int, int]
    seed: int
    extremes: bool
    gradients: bool
    target: str
    numerics: str
    elementwise: bool

    def inputs(self) -> list[Tensor]:
        dtype, random = getattr(torch, self.dtype), Random(self.seed)
        known = values(dtype, extremes=self.extremes)
        rows, columns = self.shape
        return [
            torch.tensor([[random.choice(known) for _ in range(columns)] for _ in range(rows)], dtype=dtype)
            for _ in range(2)
        ]

    def program(self) -> str:
        lines = [f"    x = {step.format(x='x', y='y')}" for step in self.steps]
        return "\n".join(["def program(x, y):", *lines, "    return x", ""])

    def function(self, *, exactly: bool = False) -> Callable[[Tensor, Tensor], Tensor]:
        """`exactly`: conversions are to f64."""
        text = self.program()
        for name in FLOATS if exactly else ():
            text = text.replace(f"torch.{name}", "torch.float64")
        names = {"torch": torch, "F": F}
        exec(compile(text, "<program>", "exec"), names)
        return names["program"]

    def results(self, function: Callable, *, exactly: bool = False) -> list[Tensor]:
        return self.run(function, [x.double() if exactly and x.is_floating_point() else x for x in self.inputs()])

    def run(self, function: Callable, given: list[Tensor]) -> list[Tensor]:
        """The result, and the gradients of the inputs if they are asked for."""
        graded = self.gradients and given[0].is_floating_point()
        leaves = [x.clone().requires_grad_(graded) for x in given]
        result = function(*leaves)
        if not (graded and result.requires_grad):
            return [result.detach()]
        result.backward(torch.ones_like(result))
        return [result.detach(), *(torch.zeros_like(x) if x.grad is None else x.grad for x in leaves)]

    def differences(self, backend: str) -> list[str]:
        torch._dynamo.reset()
        options = {"target": self.target, "numerics": self.numerics, "on_error": "raise"}
        try:
            want = self.results(self.function())
        except (RuntimeError, NotImplementedError):  # eager has no such operator for the dtype
            return []
        exact = [None] * len(want)
        if getattr(torch, self.dtype).is_floating_point:
            exact = self._exact()
        compiled = torch.compile(self.function(), backend=backend, options=options if backend == "bascule" else None)
        got = self.results(compiled)
        found = self._compared(got, want, exact)
        if found and self.elementwise:
            want = [nearer(*tensors) for tensors in zip(got, want, self.one_by_one())]
            found = self._compared(got, want, exact)
        return found

    def _exact(self) -> list[Tensor]:
        """Eager's results of the same numbers in f64; of `SLOPES` the gradients in more digits, where they are finite."""
        results = self.results(self.function(exactly=True), exactly=True)
        if len(results) > 1 and (slope := SLOPES.get(self.steps[-1])) and len(self.steps) == 1:
            x = self.inputs()[0].double()
            finite = results[1].isfinite() & (x != 0)
            with mpmath.workdps(40):
                results[1][finite] = torch.tensor([float(slope(value)) for value in x[finite].tolist()], dtype=x.dtype)
        return results

    def _compared(self, got: list[Tensor], want: list[Tensor], exact: list[Tensor | None]) -> list[str]:
        found = []
        for name, *tensors in zip(("result", "gradient of x", "gradient of y"), got, want, exact):
            found += differences(
                name,
                *tensors,
                ulps=8,
                sums=1 if self.extremes else self.shape[1],
                largest=self.terms,
                terms=self.cancelled if name != "result" else 0.0,
                zero_signs=self.zero_signs,
            )
        return found

    @property
    def terms(self) -> float | None:
        """The magnitude of what is added where that is more than what comes out: of a softmax's gradient, y - y sum(y), nothing is left."""
        if "log_softmax" in self.steps[-1]:
            return float(self.shape[1])  # 1 - y sum(1)
        return 1.0 if "softmax" in self.steps[-1] else None

    @property
    def cancelled(self) -> float:
        """The magnitude of the terms of a slope. Of other dtypes than f64 what is exact is known."""
        return float(self.dtype == "float64" and any(f"{name}(" in step for step in self.steps for name in CANCELLING))

    @property
    def zero_signs(self) -> bool:
        """Of -0.0 and a bound of 0.0 a GPU's instruction gives either; of equal extremes of a row, eager's vectors do."""
        if any(name in step for name in ("amax", "amin", "max(", "min(") for step in self.steps):
            return False
        return self.target == "cpu" or not any(name in step for name in BOUNDS for step in self.steps)

    def one_by_one(self) -> list[Tensor]:
        """Eager's results for each element by itself: its vectors and what it computes after them differ at times, as the gradient of
        `hardtanh` at NaN does, and either is right."""
        inputs = [x.flatten() for x in self.inputs()]
        each = [self.run(self.function(), [x[i : i + 1] for x in inputs]) for i in range(inputs[0].numel())]
        return [torch.cat(parts).view(self.shape) for parts in zip(*each)]

    def smaller(self) -> Iterator["Special"]:
        for number in range(len(self.steps)):
            if len(self.steps) > 1:
                yield replace(self, steps=self.steps[:number] + self.steps[number + 1 :])
        if self.gradients:
            yield replace(self, gradients=False)
        rows, columns = self.shape
        for shape in {(1, columns), (rows, columns // 2), (rows, columns - 1)}:
            if shape != self.shape and min(shape) > 0:
                yield replace(self, shape=shape)

    def source(self) -> str:
        return f"# {self}\nimport torch\nfrom torch.nn import functional as F\n\n\n{self.program()}"


def nearer(got: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """For each element the one of `x` and `y` that `got` is, or is nearer to."""
    if not got.is_floating_point() or (got.dtype, got.shape) != (x.dtype, x.shape):
        return torch.where(got == y, y, x) if got.shape == x.shape else x
    is_y = (got.isnan() & y.isnan()) | ((got == y) & (got.signbit() == y.signbit()))
    return torch.where(is_y | ((got - y).abs() < (got - x).abs()), y, x)


def draw(random: Random) -> Special:
    dtype = random.choice([*FLOATS, *FLOATS, *WHOLE])
    extremes = True
    if dtype in FLOATS:
        family = random.choice([UNARY, UNARY, BINARY, BINARY, BY_NUMBERS, EXTREMES, SUMS])
        extremes = family is not SUMS
    else:
        family = random.choice([WHOLE_STEPS, WHOLE_STEPS if dtype in ("uint8", "bool") else SIGNED_STEPS])
    steps = [random.choice(_steps(family))]
    if family is BY_NUMBERS:
        steps[0] = steps[0].replace("{n}", random.choice(NUMBERS))
    if dtype == "float64" and "hardsigmoid" in steps[0]:  # eager's gradient has a constant of f32
        dtype = "float32"
    if family is EXTREMES and dtype in FLOATS and random.random() < 0.5:
        steps.insert(0, random.choice(CHAINED))
    return Special(
        steps=tuple(steps),
        dtype=dtype,
        shape=(random.choice([1, 3, 5]), random.choice([1, 4, 7, 16, 33, 70])),
        seed=random.randrange(1 << 30),
        extremes=extremes,
        gradients=random.random() < 0.5,
        target=random.choice(TARGETS),
        numerics=random.choice(["f32", "eager"]),
        elementwise=family in (UNARY, BINARY, BY_NUMBERS) and "F.pad" not in steps[0],
    )
