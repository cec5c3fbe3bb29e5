"""Passes in other orders than the pipeline's, some of them twice: each refuses what it does not take, or leaves the numbers the same."""

import pytest
from bascule.dialect.interpreter import InterpreterError
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import BUFFERS, registry
from hypothesis import given, reject
from hypothesis import strategies as st

from bascule.errors import UserError
from bascule.tools.checking import Check, after
from tests.properties.programs import programs
from tests.properties.test_gpu_passes import CUDA
from tests.properties.test_passes import ROUNDED, SPLITTING, STAGES, TOLERANCE, drawn, sizes


def of_tensors(stages: list[str]) -> list[str]:
    """Those that take tensors, not buffers."""
    found = {name: registry.find(name.partition("{")[0]) for name in stages}
    return sorted(name for name, cls in found.items() if cls is None or cls.takes != BUFFERS)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@drawn(30)
@given(data=st.data(), text=programs(), size=sizes)
def test_any_order_leaves_the_numbers(target, data, text, size):
    known = of_tensors(CUDA if target == "cuda" else [*STAGES, *SPLITTING])
    order = data.draw(st.lists(st.sampled_from(known), min_size=2, max_size=8))
    with context() as ctx:
        module = ir.Module.parse(text, ctx)
        shapes = {"s0": size} if '"s0"' in text else {}
        try:
            check = Check(module, shapes=shapes, tolerance=ROUNDED if "bf16" in text else TOLERANCE)
        except InterpreterError:  # the program has no meaning there
            reject()
        taken = []
        for name in order:
            try:
                module = after(module, name)
            except UserError as refusal:
                assert refusal.location, f"{name} after {taken}: {refusal}"
                continue
            taken.append(name)
            if "memref<" in str(module.operation):
                break
        outcome, _ = check.interpreted(module)
        assert outcome.match, f"{taken}: {outcome.differences}\n-- before\n{text}\n-- after\n{module}"
