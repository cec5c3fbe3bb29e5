"""Optimizers compiled whole write parameters and states where they are: a step allocates next to nothing."""

import pytest
import torch
from bascule.runtime import release_arenas

from benchmarks.memory import peak_bytes
from tests.wrapper.harness import compiled

SIZE = 200 * 300 * 4  # bytes of a parameter


@pytest.mark.parametrize("kind", ["AdamW", "Adam", "SGD", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("form", ["foreach", "fused"])
def test_no_copy_of_parameters_and_states(kind, form):
    if form == "fused" and kind not in ("AdamW", "Adam", "SGD", "Adagrad"):
        pytest.skip("PyTorch has no fused form")
    torch._dynamo.reset()
    parameters = [torch.nn.Parameter(torch.randn(200, 300)) for _ in range(6)]
    more = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
    optimizer = getattr(torch.optim, kind)(parameters, lr=0.01, **{form: True}, **more)
    for p in parameters:
        p.grad = torch.randn_like(p)
    step = compiled(optimizer.step, fullgraph=False)
    for _ in range(4):
        step()
    release_arenas()  # what is kept between calls is counted in the step that allocates it
    assert peak_bytes(step) < SIZE
    places = [x.data_ptr() for state in optimizer.state.values() for x in state.values()]
    step()
    assert places == [x.data_ptr() for state in optimizer.state.values() for x in state.values()]
