"""PyTorch's database of optimizers: parameters and state after some steps, a compiled one each."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_optimizers import optim_db

from tests.databases.compare import Compile, Ran, Subject, check
from tests.operators.opinfo import tensor_leaves
from tests.parts import chosen

PARTS = 8
STEPS = 3
SHAPES = ((4, 3), (3, 5))


def _cases() -> Iterator[Any]:
    for entry in optim_db:
        inputs = entry.optim_inputs_func(device="cpu", dtype=torch.float32)
        forms = [{}, *({name: True} for name in entry.supported_impls if name != "differentiable")]
        for form in [{"foreach": False}, *forms[1:]] if "foreach" in entry.supported_impls else forms:
            for number, given in enumerate(inputs):
                kwargs = {**given.kwargs, **form}
                text = "-".join([entry.name, *(name for name, on in form.items() if on), given.desc.replace(" ", "_")])
                yield pytest.param(entry, kwargs, id=f"{text}-{number}")


CASES = list(_cases())


def subject_of(entry: Any, kwargs: dict[str, Any]) -> Subject:
    def run(compiled: Compile, dtype: torch.dtype | None) -> Ran:
        generator = torch.Generator().manual_seed(1)
        made = [torch.randn(n, m, generator=generator).to(dtype or torch.float32) for n, m in SHAPES]
        parameters = [torch.nn.Parameter(x) for x in made]
        given = {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in kwargs.items()}
        optimizer = entry.optim_cls(parameters, **given)

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            found = sum((p.sin() * p).sum() for p in parameters)
            found.backward()
            return found

        step = compiled(lambda: optimizer.step())
        for _ in range(STEPS):
            for p in parameters:
                p.grad = _gradient(p, generator, sparse=entry.only_supports_sparse_grads)
            compiled(lambda: optimizer.step(loss))() if entry.step_requires_closure else step()
        state = [optimizer.state[p] for p in parameters if p in optimizer.state]
        return Ran([], [*parameters, *tensor_leaves(state)])

    return run


def _gradient(parameter: torch.Tensor, generator: torch.Generator, *, sparse: bool) -> torch.Tensor:
    dense = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
    return dense.to_sparse(1) if sparse else dense


@pytest.mark.parametrize(("entry", "kwargs"), chosen("DATABASES", CASES, PARTS))
def test_as_in_eager(entry: Any, kwargs: dict[str, Any]):
    check(subject_of(entry, kwargs))
