"""One case: compiled against eager, forward and backward."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from bascule.dialect.interpreter import relative_errors, tolerance_of

from tests.operators.compilers import Compiled, Compiler
from tests.operators.exceptions import CRASHES, OTHER_NUMBERS, SEED, Seen, observe
from tests.operators.opinfo import Case, Sample, emptied, samples, tensor_leaves

WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float32, torch.float16: torch.float32}


class Wrong(AssertionError):
    """A result that differs from eager's."""


@dataclass
class Outcome:
    """The outcome of a case. `aten`: operators that were called, with the reason; `kernels`: functions generated; `exempt`: how many samples
    were not run, or not compared, by reason."""

    samples: int = 0
    kernels: int = 0
    aten: dict[str, str] = field(default_factory=dict)
    exempt: Counter[str] = field(default_factory=Counter)


def check(case: Case, compiler: Compiler, count: int, *, empty: bool = False) -> Outcome:
    """Runs `count` samples of a case; `empty`: with sizes of 0 in them. Raises `Wrong`, or what the compiler raises."""
    outcome = Outcome()
    drawn = samples(case, count)
    for number, sample in enumerate(chain.from_iterable(map(emptied, drawn)) if empty else drawn):
        compiled = Compiled()
        try:
            if (reason := _exempt(sample, empty)) is not None:
                outcome.exempt[reason] += 1
                continue
            if empty and (refused := _refusal(sample)) is not None:
                _check_refused(sample, compiler, refused)
                continue
            seen = observe(sample)
            if seen.draws and compiler.drawing is None:
                outcome.exempt[OTHER_NUMBERS] += 1
            check_sample(sample, compiler, compiled, seen)
        except Exception as error:
            if empty and _fails_in_pytorch(sample):
                continue
            error.add_note(f"in sample {number} of {case}, of sizes {[[*t.shape] for t in sample.tensors]}")
            raise
        outcome.samples += 1
        outcome.kernels += compiled.kernels()
        outcome.aten |= compiled.aten()
    return outcome


def _exempt(sample: Sample, empty: bool) -> str | None:
    """Why the sample is not run."""
    if reason := next((exemption.reason for exemption in CRASHES if exemption.holds(sample)), None):
        return reason
    refused = None if empty else _refusal(sample)
    return refused and f"eager refuses it on this device: {type(refused).__name__}: {refused}"


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


def _fails_in_pytorch(sample: Sample) -> bool:
    """Whether AOTAutograd without us does not do what eager does either."""

    def eager_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], compiled: Compiled) -> Callable[..., Any]:
        return torch._dynamo.lookup_backend("aot_eager")(gm, example_inputs)

    try:
        check_sample(sample, Compiler(eager_graph, dynamo=True, drawing=eager_graph), Compiled(), observe(sample))
    except Exception:  # of any kind: PyTorch's own compile does not do it either
        return True
    return False


def check_sample(sample: Sample, compiler: Compiler, compiled: Compiled, seen: Seen) -> None:
    """A sample that draws is run twice: sizes, dtypes and strides are eager's, and where the numbers drawn are eager's, so are those."""
    compiler = replace(compiler, dynamo=compiler.dynamo or bool(seen.untraceable))
    if seen.draws:
        _check_once(sample, compiler, compiled, seen, numbers=False)
        if compiler.drawing is None:
            return
        compiler = replace(compiler, backend=compiler.drawing)
    _check_once(sample, compiler, compiled, seen, numbers=True)


def _check_once(sample: Sample, compiler: Compiler, compiled: Compiled, seen: Seen, *, numbers: bool) -> None:
    inputs, given = sample.copies(), sample.copies()
    torch.manual_seed(SEED)
    expected = tensor_leaves(sample.function(*inputs))
    run = compiler(sample.function, given, compiled)
    torch.manual_seed(SEED)
    actual = run(*given)
    compare_metadata(expected, actual, lambda: _meta_results(sample))
    if not numbers:
        return
    reference = Reference(sample, seen.draws)
    results, after = seen.written[: len(expected)], seen.written[len(expected) :]
    compare("result", expected, actual, reference.outputs, results)
    compare("input (after the call)", inputs, given, lambda: [None] * len(inputs), after)
    wanted = [i for i, tensor in enumerate(inputs) if tensor.requires_grad]
    targets = [i for i, tensor in enumerate(expected) if tensor.requires_grad]
    if wanted and targets:
        gradients = []
        for outputs, tensors in ((expected, inputs), (actual, given)):
            torch.manual_seed(SEED)
            gradients.append(backward([outputs[i] for i in targets], [tensors[i] for i in wanted]))
        compare("gradient", *gradients, lambda: reference.gradients(targets, wanted))


def backward(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of the inputs (zero where nothing depends on them) for seeded cotangents."""
    generator = torch.Generator().manual_seed(1)
    # Numbers that bf16 holds, so that a reference of a wider dtype has the same.
    cotangents = [torch.randn(o.shape, generator=generator).bfloat16().to(o.device, o.dtype) for o in outputs]
    found = torch.autograd.grad(list(outputs), list(inputs), cotangents, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, inputs)]


class Reference:
    """The sample in eager at a wider dtype, computed when first asked for; Nones where the operator does not take it.

    Random numbers of another dtype are others: a sample that `draws` has its inputs changed by a rounding instead.
    """

    def __init__(self, sample: Sample, draws: bool):
        self.sample, self.draws, self.inputs, self.results, self.backward = sample, draws, [], None, None

    def outputs(self) -> list[torch.Tensor | None]:
        if self.results is None and (inputs := self._inputs()):
            try:
                torch.manual_seed(SEED)
                self.results, self.inputs = tensor_leaves(self.sample.function(*inputs)), inputs
            except (RuntimeError, TypeError, ValueError, NotImplementedError):  # not at this dtype
                self.results = None
        return self.results or [None] * 1000

    def _inputs(self) -> list[torch.Tensor]:
        if self.draws:
            return [_nudged(x) for x in self.sample.copies()]
        wider = next((WIDER[t.dtype] for t in self.sample.tensors if t.dtype in WIDER), None)
        return self.sample.copies(wider) if wider is not None else []

    def gradients(self, targets: list[int], wanted: list[int]) -> list[torch.Tensor | None]:
        results = self.outputs()
        if self.results is None or any(results[i] is None or not results[i].requires_grad for i in targets):
            return [None] * len(wanted)
        if self.backward is None:
            self.backward = backward([results[i] for i in targets], [self.inputs[i] for i in wanted])
        return self.backward


def _nudged(x: torch.Tensor) -> torch.Tensor:
    """The next numbers away from zero."""
    if not x.is_floating_point() or x.layout != torch.strided:
        return x
    return torch.nextafter(x.detach(), x.detach().sign() * torch.inf).requires_grad_(x.requires_grad)


def _meta_results(sample: Sample) -> list[torch.Tensor]:
    """Without memory: what AOTAutograd knows of the results. None where the operator needs numbers."""
    try:
        return tensor_leaves(sample.function(*(x.to("meta") for x in sample.copies())))
    except (RuntimeError, NotImplementedError):  # it has no such form
        return []


def compare_metadata(
    expected: Sequence[torch.Tensor],
    actual: Sequence[torch.Tensor],
    meta: Callable[[], Sequence[torch.Tensor]] = tuple,
) -> None:
    """Sizes, dtypes, strides (where they say something), and whether gradients flow. PyTorch's `meta` results, which AOTAutograd promises to its
    callers, may have other strides than eager's (max_unpool2d of channels last): those then."""
    if len(expected) != len(actual):
        raise Wrong(f"{len(actual)} results for {len(expected)}")
    for i, (want, got) in enumerate(zip(expected, actual)):
        if (want.dtype, want.shape) != (got.dtype, got.shape):
            raise Wrong(f"result {i} is {got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}")
        differs = want.layout == torch.strided and want.numel() and not _same_strides(want, got)
        if differs and not any(_same_strides(promised, got) for promised in meta()[i : i + 1]):
            raise Wrong(f"result {i} of sizes {list(want.shape)} has strides {got.stride()} for {want.stride()}")
        if want.requires_grad != got.requires_grad:
            raise Wrong(f"result {i} has requires_grad {got.requires_grad} for {want.requires_grad}")


def _same_strides(x: torch.Tensor, y: torch.Tensor) -> bool:
    return all(s == t for n, s, t in zip(x.shape, x.stride(), y.stride()) if n > 1)


def compare(what, expected, actual, reference, written=None) -> None:
    """Elements may differ by the tolerance; by more if none is much farther from the reference than eager's worst. `written`: where each result
    is compared (None: everywhere)."""
    for i, (want, got) in enumerate(zip(expected, actual)):
        if want.layout != torch.strided:
            want, got = want.to_dense(), got.to_dense()
        want, got = want.detach(), got.detach()
        if written is not None and not written[i].all():
            got = got.where(written[i], want)
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
