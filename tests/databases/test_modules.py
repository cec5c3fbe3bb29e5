"""PyTorch's database of modules: outputs, what the call leaves in inputs and buffers, gradients of inputs and parameters."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_map

from tests.databases.compare import Compile, Ran, Subject, check
from tests.operators.check import backward
from tests.operators.opinfo import tensor_leaves
from tests.parts import asked, chosen

PARTS = 6
MODES = [(entry, training) for entry in module_db for training in (True, False)]
CASES = [pytest.param(*mode, id=f"{mode[0].name}-{'train' if mode[1] else 'eval'}") for mode in MODES]


@cache
def samples(entry: Any, training: bool) -> Sequence[Any]:
    """Constructor and call of each of a module's samples, always the same ones."""
    torch.manual_seed(0)
    given = {"device": "cpu", "dtype": torch.float32, "requires_grad": True, "training": training}
    return [x for x in entry.module_inputs_func(entry, **given) if x.forward_input is not None]


def subject_of(entry: Any, sample: Any, training: bool) -> Subject:
    built, called = sample.constructor_input, sample.forward_input

    def run(compiled: Compile, dtype: torch.dtype | None) -> Ran:
        torch.manual_seed(1)
        module = entry.module_cls(*built.args, **built.kwargs).train(training)
        args, kwargs = tree_map(lambda x: _copied(x, dtype), (called.args, called.kwargs))
        if entry.is_lazy:
            with torch.no_grad():
                module(*args, **kwargs)  # makes the parameters
        module = module.to(dtype or torch.float32)
        torch.manual_seed(2)
        results = tensor_leaves(compiled(module)(*args, **kwargs))
        inputs = tensor_leaves((args, kwargs))
        wanted = [x for x in (*inputs, *module.parameters()) if x.requires_grad]
        graded = [y for y in results if y.requires_grad]
        gradients = backward(graded, wanted) if graded and wanted else ()
        return Ran(results, [*inputs, *module.buffers()], gradients)

    return run


def _copied(x: Any, dtype: torch.dtype | None) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    new = x.detach().to(dtype if dtype is not None and x.is_floating_point() else x.dtype, copy=True)
    return new.requires_grad_(x.requires_grad)


@pytest.mark.parametrize(("entry", "training"), chosen("DATABASES", CASES, PARTS))
def test_as_in_eager(entry: Any, training: bool):
    found = samples(entry, training)
    for number, sample in enumerate(found if asked("DATABASES") else found[:1]):
        try:
            check(subject_of(entry, sample, training), dynamic=number % 2 == 1)
        except Exception as error:
            error.add_note(f"in sample {number}: {sample.desc}")
            raise
