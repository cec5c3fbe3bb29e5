"""Every pass leaves what a program computes the same, and so does the whole pipeline."""

import os

import pytest
import torch
from bascule.dialect.interpreter import InterpreterError, compare, interpret, random_inputs
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline, registry
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from bascule.debugging.run_program import run_compiled
from bascule.pipelines import DEFAULT
from tests.properties.programs import programs

# The programs are of the tensor stage: what comes before makes it.
_DEFAULT = DEFAULT[DEFAULT.index("torch-to-bascule") + 1 :]
STAGES = tuple(_DEFAULT)
# The same with thresholds so low that programs of a few elements pass them.
EAGER = {
    "split-domains": "split-domains{min-shared=1 min-run=1}",
    "split-reductions": "split-reductions{parallel=3 min-size=2 cache=512}",
    "form-kernels": "form-kernels{min-shared=1}",
}
SPLITTING = [EAGER.get(stage, stage) for stage in STAGES]
# A value of bf16 may be rounded once more or once less: by drop-roundings, and where a kernel keeps it in f32.
TOLERANCE = 1e-4
ROUNDED = 0.1


def run(module: ir.Module, inputs: list) -> list[torch.Tensor]:
    """The results, then the inputs as they are left."""
    own = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    results = interpret(module, own)
    return [*results, *(value for value in own if isinstance(value, torch.Tensor))]


def compare_after(text: str, size: int, before: list[str], tested: list[str], *, compiled: bool = False) -> None:
    """`tested` passes, after `before`, do not change the numbers; nor, with `compiled`, does machine code."""
    with context() as ctx:
        module = ir.Module.parse(text, ctx)
        Pipeline.parse(",".join(before)).run(module, verify=True)
        inputs = random_inputs(module, shapes={"s0": size} if '"s0"' in text else {})
        try:
            expected = run(module, inputs)
        except InterpreterError:  # the program has no meaning there: the largest of no numbers, for example
            reject()
        start = str(module)
        Pipeline.parse(",".join(tested)).run(module, verify=True)
        if compiled:
            own = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
            actual = [*run_compiled(module, own), *(value for value in own if isinstance(value, torch.Tensor))]
        else:
            actual = run(module, inputs)
        outcome = compare(expected, actual, ROUNDED if "bf16" in text else TOLERANCE)
        assert outcome.match, f"{outcome.differences}\n-- before\n{start}\n-- after\n{module}"


sizes = st.sampled_from((5, 1, 0, 17))  # of the symbol
common = settings(deadline=None, suppress_health_check=list(HealthCheck))


def drawn(examples: int) -> settings:
    """Half of `examples`; all of them in `make test-all` and `make soak`, which set `BASCULE_HYPOTHESIS`."""
    return settings(common, max_examples=examples if os.environ.get("BASCULE_HYPOTHESIS") else examples // 2)


@pytest.mark.parametrize("position", range(len(STAGES)), ids=STAGES)
@drawn(25)
@given(text=programs(), size=sizes)
def test_a_pass_does_not_change_the_numbers(position, text, size):
    compare_after(text, size, list(STAGES[:position]), [STAGES[position]])
    if STAGES[position] in EAGER:
        compare_after(text, size, SPLITTING[:position], [SPLITTING[position]])


@drawn(60)
@given(text=programs(), size=sizes)
def test_the_pipeline_does_not_change_the_numbers(text, size):
    compare_after(text, size, [], list(STAGES))


@drawn(40)
@given(text=programs(), size=sizes)
def test_machine_code_computes_the_same(text, size):
    compare_after(text, size, [], list(STAGES), compiled=True)
    compare_after(text, size, [], SPLITTING, compiled=True)


def test_every_pass_of_the_dialect_is_covered():
    found = {name: registry.find(name) for name in registry.names()}
    dialect = {name for name, cls in found.items() if cls.__module__.startswith("bascule.dialect.")}
    assert dialect <= set(STAGES)
