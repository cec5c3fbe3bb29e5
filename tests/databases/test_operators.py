"""PyTorch's databases of higher-order operators, autograd functions and custom operators, in the form of its operator database."""

from typing import Any

import pytest
import torch
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.custom_op_db import custom_op_db
from torch.testing._internal.hop_db import hop_db
from torch.utils._pytree import tree_map

from tests.databases.compare import Compile, Ran, Subject, check
from tests.operators.check import backward
from tests.operators.opinfo import Sample, samples_of, tensor_leaves

DATABASES = {"hop": hop_db, "autograd_function": autograd_function_db, "custom_op": custom_op_db}
CASES = [pytest.param(x, id=f"{name}-{x.formatted_name}") for name, entries in DATABASES.items() for x in entries]


def subject_of(sample: Sample) -> Subject:
    def between_copies(*tensors: torch.Tensor) -> Any:
        """There is something to compile even where Dynamo leaves the call itself to eager."""
        return tree_map(_copied, sample.function(*map(_copied, tensors)))

    def run(compiled: Compile, dtype: torch.dtype | None) -> Ran:
        inputs = sample.copies(dtype)
        results = tensor_leaves(compiled(between_copies)(*inputs))
        wanted = [x for x in inputs if x.requires_grad]
        graded = [x for x in results if x.requires_grad]
        return Ran(results, inputs, backward(graded, wanted) if wanted and graded else ())

    return run


def _copied(x: Any) -> Any:
    """A tensor's copy; of a number, which operators return too, a tensor."""
    return x.clone() if isinstance(x, torch.Tensor) else torch.tensor(x) if isinstance(x, int | float) else x


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("entry", CASES)
def test_as_in_eager(entry: Any, dynamic: bool):
    for sample in samples_of(entry, torch.float32):
        check(subject_of(sample), dynamic=dynamic)
