"""One case: compiled against eager, forward and backward."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from bascule.dialect.interpreter import relative_errors, tolerance_of

from tests.operators.compilers import Compiled, Compiler
from tests.operators.exceptions import NUMBERS_DIFFER, NUMBERS_DIFFER_EMPTY
from tests.operators.opinfo import Case, Sample, emptied, samples, tensor_leaves

WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float32, torch.float16: torch.float32}


class Wrong(AssertionError):
    """A result that differs from eager's."""


@dataclass
class Outcome:
    """The outcome of a case. `aten`: operators that were called, with the reason; `kernels`: functions generated."""

    samples: int = 0
    kernels: int = 0
    aten: dict[str, str] = field(default_factory=dict)


def check(case: Case, compiler: Compiler, count: int, *, empty: bool = False) -> Outcome:
    """Runs the first `count` samples of a case; `empty`: with sizes of 0 in them. Raises `Wrong`, or what the compiler raises."""
    outcome = Outcome()
    drawn = samples(case, count)
    for number, sample in enumerate(chain.from_iterable(map(emptied, drawn)) if empty else drawn):
        compiled = Compiled()
        numbers = case.operator not in NUMBERS_DIFFER and not (empty and case.operator in NUMBERS_DIFFER_EMPTY)
        try:
            if empty and (refused := _refusal(sample)) is not None:
                _check_refused(sample, compiler, refused)
                continue
            check_sample(sample, compiler, compiled, numbers=numbers)
        except Exception as error:
            if empty and _fails_in_pytorch(sample, numbers):
                continue
            error.add_note(f"in sample {number} of {case}, of sizes {[[*t.shape] for t in sample.tensors]}")
            raise
        outcome.samples += 1
        outcome.kernels += compiled.kernels()
        outcome.aten |= compiled.aten()
    return outcome


def _refusal(sample: Sample) -> Exception | None:
    """Why eager does not take the sample, or does not give its gradients."""
    given = sample.copies()
    try:
        results = [y for y in tensor_leaves(sample.function(*given)) if y.requires_grad]
        if results:
            backward(results, [x for x in given if x.requires_grad])
    except Exception as error:  # whatever the operator raises
        return error
    return None


def _check_refused(sample: Sample, compiler: Compiler, refused: Exception) -> None:
    given = sample.copies()
    try:
        results = [y for y in compiler(sample.function, given, Compiled())(*given) if y.requires_grad]
        if results:
            backward(results, [x for x in given if x.requires_grad])
    except Exception:  # as eager does, in words of its own
        return
    raise Wrong(f"eager raises {type(refused).__name__}: {refused}")


def _fails_in_pytorch(sample: Sample, numbers: bool) -> bool:
    """Whether AOTAutograd without us does not do what eager does either."""

    def compiler(function, tensors, compiled):
        run = torch.compile(function, backend="aot_eager", dynamic=False)
        return lambda *xs: tensor_leaves(run(*xs))

    try:
        check_sample(sample, compiler, Compiled(), numbers=numbers)
    except Exception:  # of any kind: PyTorch's own compile does not do it either
        return True
    return False


def check_sample(sample: Sample, compiler: Callable[..., Any], compiled: Compiled, *, numbers: bool) -> None:
    inputs = sample.copies()
    expected = tensor_leaves(sample.function(*inputs))
    given = sample.copies()
    run = compiler(sample.function, given, compiled)
    actual = run(*given)
    compare_metadata(expected, actual)
    if not numbers:
        return
    reference = Reference(sample)
    compare("result", expected, actual, reference.outputs)
    compare("input (after the call)", inputs, given, lambda: [None] * len(inputs))
    wanted = [i for i, tensor in enumerate(inputs) if tensor.requires_grad]
    targets = [i for i, tensor in enumerate(expected) if tensor.requires_grad]
    if wanted and targets:
        gradients = [
            backward([outputs[i] for i in targets], [tensors[i] for i in wanted])
            for outputs, tensors in ((expected, inputs), (actual, given))
        ]
        compare("gradient", *gradients, lambda: reference.gradients(targets, wanted))


def backward(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of the inputs (zero where nothing depends on them) for seeded cotangents."""
    generator = torch.Generator().manual_seed(1)
    # Numbers that bf16 holds, so that a reference of a wider dtype has the same.
    cotangents = [torch.randn(o.shape, generator=generator).bfloat16().to(o.device, o.dtype) for o in outputs]
    found = torch.autograd.grad(list(outputs), list(inputs), cotangents, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, inputs)]


class Reference:
    """The sample in eager at a wider dtype, computed when first asked for; Nones where the operator does not take it."""

    def __init__(self, sample: Sample):
        self.sample, self.inputs, self.results, self.backward = sample, [], None, None

    def outputs(self) -> list[torch.Tensor | None]:
        wider = next((WIDER[t.dtype] for t in self.sample.tensors if t.dtype in WIDER), None)
        if self.results is None and wider is not None:
            try:
                self.inputs = self.sample.copies(wider)
                self.results = tensor_leaves(self.sample.function(*self.inputs))
            except (RuntimeError, TypeError, ValueError, NotImplementedError):  # not at this dtype
                self.results = None
        return self.results or [None] * 1000

    def gradients(self, targets: list[int], wanted: list[int]) -> list[torch.Tensor | None]:
        results = self.outputs()
        if self.results is None or any(results[i] is None or not results[i].requires_grad for i in targets):
            return [None] * len(wanted)
        if self.backward is None:
            self.backward = backward([results[i] for i in targets], [self.inputs[i] for i in wanted])
        return self.backward


def compare_metadata(expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]) -> None:
    """Sizes, dtypes, strides (where they say something), and whether gradients flow."""
    if len(expected) != len(actual):
        raise Wrong(f"{len(actual)} results for {len(expected)}")
    for i, (want, got) in enumerate(zip(expected, actual)):
        if (want.dtype, want.shape) != (got.dtype, got.shape):
            raise Wrong(f"result {i} is {got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}")
        if want.layout == torch.strided and want.numel():
            strides = [(s, t) for n, s, t in zip(want.shape, want.stride(), got.stride()) if n > 1]
            if any(s != t for s, t in strides):
                raise Wrong(f"result {i} of sizes {list(want.shape)} has strides {got.stride()} for {want.stride()}")
        if want.requires_grad != got.requires_grad:
            raise Wrong(f"result {i} has requires_grad {got.requires_grad} for {want.requires_grad}")


def compare(what, expected, actual, reference) -> None:
    """Elements may differ by the tolerance; by more if none is much farther from the reference than eager's worst."""
    for i, (want, got) in enumerate(zip(expected, actual)):
        if want.layout != torch.strided:
            want, got = want.to_dense(), got.to_dense()
        want, got = want.detach(), got.detach()
        if want.numel() == 0:
            continue
        if not (want.is_floating_point() or want.is_complex()):
            if not torch.equal(want, got):
                raise Wrong(f"{what} {i}: {int((want != got).sum())} of {want.numel()} elements differ")
            continue
        errors = relative_errors(want, got)
        tolerance = tolerance_of(want.dtype)
        if float(errors.max()) <= tolerance:
            continue
        exact = reference()[i]
        if exact is not None and exact.shape == want.shape and not exact.dtype.is_complex:
            mine, eager = relative_errors(exact, got.to(exact.dtype)), relative_errors(exact, want.to(exact.dtype))
            if float(mine.max()) <= 4 * float(eager.max()) + tolerance:
                continue
        worst = int(errors.argmax())
        raise Wrong(
            f"{what} {i}: error {float(errors.max()):.1e} in {want.dtype}{list(want.shape)}: "
            f"expected {want.flatten()[worst].item()}, got {got.flatten()[worst].item()}"
        )
