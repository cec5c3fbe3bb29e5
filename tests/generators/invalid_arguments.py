"""Calls of operators with one argument that is wrong, or nearly: an index beyond its dimension, a dimension that there is not, another dtype or
size, a probability above 1, a NaN.

Where eager raises, so does compiled code: an exception of that type, or under it, with the numbers that eager tells, and arguments as eager
leaves them. Where eager does not, it gives what eager gives; or, of 16 bits, what eager gives in f64 for the same numbers: eager rounds the
places of `grid_sampler_2d` to bf16; or, where eager's kernel gives NaN, what PyTorch's decomposition gives: on the CPU `batch_norm` takes an
infinite weight times the mean from that times the input. What eager leaves unwritten, as the result of `grid_sampler_3d` in a mode that there
is not, may be anything.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

import torch
from bascule.dialect.errors import CompilerError
from bascule.dialect.interpreter import relative_errors, tolerance_of
from bascule.runtime.modules.index_errors import IndexOutOfRangeError
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from tests.operators.exceptions import draws
from tests.operators.opinfo import duplicate, operators, tensor_leaves

NUMBERS = re.compile(r"(?<!#)-?\b\d+")  # "argument #2" is a place
NO_KERNEL = (
    "not implemented for '"  # a dtype that eager has no kernel for: the arguments make sense, and may be computed
)
SAMPLES = 6
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
ROUNDED = (torch.bfloat16, torch.float16)
MOST = 4000  # elements of a call's tensors
DTYPE_CHANGES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.int16)
POLYNOMIALS = (
    *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
)
LEFT_OUT = {
    "empty_strided": "a storage of any size: memory is what runs out",
    "new_empty_strided": "a storage of any size: memory is what runs out",
    "as_strided": "reads outside of the tensor",
    "as_strided_copy": "reads outside of the tensor",
    "as_strided_partial_views": "reads outside of the tensor",
    "as_strided_scatter": "reads outside of the tensor",
    "_batch_norm_with_update": "its kernel reads past the end of parameters that are too short: `batch_norm` is what checks sizes",
}

# What eager's kernel makes of a NaN is not defined in C++: any number may come of it.
UNDEFINED = {
    "grid_sampler_3d": "it converts the place to an integer",
    **dict.fromkeys(
        (f"special_{kind}" for kind in POLYNOMIALS),
        "it returns a variable that got no value where the recurrence met one",
    ),
}

# By Welford's recurrence a mean that met an infinity is NaN at the next number: which of them it is goes by the order of the numbers.
RECURRENT = ("std_mean", "std_mean.unbiased", "var_mean", "var_mean.unbiased")

UNWRITTEN = ("empty", "empty_like", "empty_permuted", "new_empty")  # whose results hold what the memory held


@dataclass(frozen=True)
class Case:
    operator: str
    seed: int
    change: str  # what is wrong
    leaves: list[Any] = field(repr=False)
    structure: Any = field(repr=False)

    def source(self) -> str:
        return f"""from tests.generators.invalid_arguments import draw_from

# {self.operator}: {self.change}
assert not draw_from({self.operator!r}, {self.seed}).differences("bascule")
"""

    def smaller(self) -> Iterator["Case"]:
        return iter(())

    def differences(self, backend: str) -> list[str]:
        torch._dynamo.reset()
        options = {"options": {"on_error": "raise"}} if backend == "bascule" else {}
        function = operators()[self.operator].op
        call = torch.compile(_called(function), backend=backend, **options)
        error, results, left = self._run(function)
        theirs, got, after = self._run(call)
        name = f"{self.operator} ({self.change})"
        if NO_KERNEL in str(error):
            return [f"{name}: {theirs!r:.300}, eager {error!r:.300}"] if isinstance(theirs, CompilerError) else []
        if (error is None) != (theirs is None):
            return [f"{name}: {theirs!r:.300}, eager {error!r:.300}"]
        if error is not None:
            return [f"{name}: {text}" for text in _of_errors(error, theirs)] or self._of_tensors(name, left, after)
        anything = self.operator in UNWRITTEN or (
            self.operator in UNDEFINED and self.change.partition(": ")[2].startswith("nan ")
        )
        found = self._of_tensors(name, [*results, *left], [*got, *after], numbers=not anything)
        if found and draws(lambda: self._run(function)):  # other numbers than eager's
            return self._of_tensors(name, [*results, *left], [*got, *after], numbers=False)
        if found:
            found = self._of_tensors(name, self._settled(function, [*results, *left], [*got, *after]), [*got, *after])
        return found

    def _settled(self, function: Callable[..., Any], wanted: list[Tensor], got: list[Tensor]) -> list[Tensor]:
        """`wanted`, with the elements of `got` where eager writes none, or where its f64 gives those, rounded to the dtype."""
        with _unwritten_as_nan():
            _, results, left = self._run(function)
        _, exact, exact_left = self._run(function, exactly=True)
        torch._dynamo.reset()
        _, parts, parts_left = self._run(torch.compile(_called(function), backend="aot_eager_decomp_partition"))
        settled = []
        for number, (x, y) in enumerate(zip(wanted, got)):
            z = [*results, *left][number]
            if (x.dtype, x.shape, x.layout) == (y.dtype, y.shape, torch.strided) and x.is_floating_point():
                if self.operator in RECURRENT:
                    x = torch.where(~x.isfinite() & y.isnan(), y, x)
                x = torch.where(z.isnan() & ~x.isnan(), y, x)
                if len(parts) == len(results):
                    x = torch.where(x.isnan() & (relative_errors([*parts, *parts_left][number], y) == 0), y, x)
                best = [*exact, *exact_left][number] if len(exact) == len(results) else x
                if x.dtype in ROUNDED and best.shape == y.shape:
                    x = torch.where(relative_errors(best, y) <= 4 * tolerance_of(x.dtype), y, x)
            settled.append(x)
        return settled

    def _run(
        self, function: Callable[..., Any], *, exactly: bool = False
    ) -> tuple[Exception | None, list[Tensor], list[Tensor]]:
        """The exception that it raises, its results, and its tensors after the call. `exactly`: of the same numbers in f64, those of 16 bits."""
        leaves = [duplicate(x) if isinstance(x, Tensor) else x for x in self.leaves]
        if exactly:
            leaves = [x.double() if isinstance(x, Tensor) and x.dtype in ROUNDED else x for x in leaves]
        first, args, named = tree_unflatten(leaves, self.structure)
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return None, tensor_leaves(function(first, *args, **named)), tensors
            except Exception as error:  # is what is compared
                return error, [], tensors

    def _of_tensors(self, name: str, wanted: list[Tensor], got: list[Tensor], *, numbers: bool = True) -> list[str]:
        if len(wanted) != len(got):
            return [f"{name}: {len(got)} tensors, not {len(wanted)}"]
        found = []
        for number, (x, y) in enumerate(zip(wanted, got)):
            if (x.dtype, x.shape) != (y.dtype, y.shape):
                found.append(f"{name}: tensor {number} is {y.dtype} {[*y.shape]}, not {x.dtype} {[*x.shape]}")
            elif x.layout != torch.strided or not x.numel() or not numbers:
                continue
            elif (off := relative_errors(x, y).max().item()) > 4 * tolerance_of(x.dtype):
                found.append(f"{name}: tensor {number}, {x.dtype}, is off by {off:.1e}")
        return found


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function for Dynamo to trace, which calls `function`."""
    return lambda first, *rest, **named: function(first, *rest, **named)


@contextmanager
def _unwritten_as_nan() -> Iterator[None]:
    """Memory of eager's that nobody has written is NaN."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _of_errors(wanted: Exception, got: Exception) -> list[str]:
    if not isinstance(got, type(wanted)):
        return [f"{got!r:.300}, eager {wanted!r:.300}"]
    if isinstance(got, IndexOutOfRangeError) and not {*NUMBERS.findall(str(wanted))} <= {*NUMBERS.findall(str(got))}:
        return [f"{got} has not all that eager tells: {wanted}"]
    return []


def draw(random: Random) -> Case:
    names = [name for name in operators() if name not in LEFT_OUT]
    return draw_from(random.choice(names), random.getrandbits(32))


def draw_from(operator: str, seed: int) -> Case:
    """A call of `operator` with one change."""
    random = Random(seed)
    entry = operators()[operator]
    dtypes = [dtype for dtype in DTYPES if dtype in entry.supported_dtypes("cpu")] or [torch.float32]
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = [*islice(entry.sample_inputs("cpu", random.choice(dtypes)), random.randrange(SAMPLES) + 1)]
    for sample in reversed(samples):
        leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        if sum(x.numel() for x in tensors) <= MOST and all(x.layout == torch.strided for x in tensors):
            break
    change = _change(random, leaves)
    return Case(operator, seed, change, leaves, structure)


def _change(random: Random, leaves: list[Any]) -> str:
    """Changes one of `leaves`, no sparse tensor; says how."""
    strided = [not isinstance(x, Tensor) or x.layout == torch.strided for x in leaves]
    known = [isinstance(x, Tensor | int | float) and not isinstance(x, bool) for x in leaves]
    places = [i for i in range(len(leaves)) if strided[i] and known[i]]
    if not places:
        return "nothing"
    place = random.choice(places)
    old = leaves[place]
    leaves[place], text = _changed_tensor(random, old) if isinstance(old, Tensor) else _changed_number(random, old)
    return f"argument {place}: {text}"


def _changed_number(random: Random, old: float) -> tuple[float, str]:
    if isinstance(old, int):
        new: float = random.choice([old + 1, old - 1, -old - 1, 0, -1, 7, -7, 33])
    else:
        new = random.choice([old + 1, -old, 1.5, -0.5, 0.0, float("nan"), float("inf")])
    return new, f"{new} for {old}"


def _changed_tensor(random: Random, old: Tensor) -> tuple[Tensor, str]:
    kinds = ["dtype", "size", "dimension"] + ["element"] * 3 * bool(old.numel() and old.dtype != torch.bool)
    match random.choice(kinds):
        case "dtype":
            dtype = random.choice([dtype for dtype in DTYPE_CHANGES if dtype != old.dtype])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return old.detach().to(dtype), f"{dtype} for {old.dtype}"
        case "size" if old.dim():
            dim = random.randrange(old.dim())
            size = max(0, old.shape[dim] + random.choice([-1, 1]))
            new = old.detach().index_select(dim, torch.arange(size) % max(1, old.shape[dim])) if old.shape[dim] else old
            return new, f"sizes {[*new.shape]} for {[*old.shape]}"
        case "element":
            return _with_element(random, old)
    return old.detach()[None], f"sizes {[1, *old.shape]} for {[*old.shape]}"


def _with_element(random: Random, old: Tensor) -> tuple[Tensor, str]:
    """One element that is out of most ranges."""
    new = old.detach().clone(memory_format=torch.contiguous_format)
    place = random.randrange(old.numel())
    if old.dtype.is_floating_point:
        value: float = random.choice([float("nan"), float("inf"), -1.0, 1.5, 0.0])
    elif old.dtype.is_complex:
        value = 0.0
    else:
        largest = torch.iinfo(old.dtype).max
        value = random.choice([-1, 0, old.shape[0] if old.dim() else 1, 1000, -1000, largest, -largest])
        value = max(torch.iinfo(old.dtype).min, min(largest, value))
    new.view(-1)[place] = value
    return new, f"{value} at place {place}"
