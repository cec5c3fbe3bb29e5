"""Every pass leaves what a program computes the same, and so does the whole pipeline."""

import pytest
import torch
from bascule.dialect.interpreter import compare, interpret, random_inputs
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline, registry
from hypothesis import HealthCheck, given, settings

from bascule.pipelines import DEFAULT

from .programs import programs

# The programs are of the tensor stage: what comes before makes it.
STAGES = DEFAULT[DEFAULT.index("torch-to-bascule") + 1 :]
# A value of bf16 may be rounded once more or once less: by drop-roundings, and where a kernel keeps it in f32.
TOLERANCE = 1e-4
ROUNDED = 0.1


def run(module: ir.Module, inputs: list) -> list[torch.Tensor]:
    """The results, then the inputs as they are left."""
    own = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    results = interpret(module, own)
    return [*results, *(value for value in own if isinstance(value, torch.Tensor))]


def check(text: str, before: list[str], tested: list[str]) -> None:
    """`tested` passes, after `before`, do not change the numbers."""
    with context() as ctx:
        module = ir.Module.parse(text, ctx)
        Pipeline.parse(",".join(before)).run(module, verify=True)
        inputs = random_inputs(module)
        expected = run(module, inputs)
        start = str(module)
        Pipeline.parse(",".join(tested)).run(module, verify=True)
        outcome = compare(expected, run(module, inputs), ROUNDED if "bf16" in text else TOLERANCE)
        assert outcome.match, f"{outcome.differences}\n-- before\n{start}\n-- after\n{module}"


common = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("position", range(len(STAGES)), ids=STAGES)
@settings(common, max_examples=30)
@given(text=programs())
def test_a_pass_does_not_change_the_numbers(position, text):
    check(text, list(STAGES[:position]), [STAGES[position]])


@settings(common, max_examples=100)
@given(text=programs())
def test_the_pipeline_does_not_change_the_numbers(text):
    check(text, [], list(STAGES))


def test_every_pass_of_the_dialect_is_covered():
    upstream = {"canonicalize", "cse"}
    assert {name for name in registry.names() if name not in STAGES} <= {"torch-to-bascule"}
    assert all(registry.find(name) is not None for name in set(STAGES) - upstream)
