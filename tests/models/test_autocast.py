"""Training steps under autocast: gradients are as near to those of f64 as eager's are.

One step says little: a sign that rounding turns changes a gradient more than a fault does. So errors are summed over several weights and
batches, and compared for each parameter, and for the median of all. Models with ReLU are none of these: over several seeds theirs are 0.9 to 2.7
times eager's.
"""

import copy

import pytest
import torch

from benchmarks.model_cases import CASES, TESTED, training_step

MODELS = {case.name: case for case in CASES if case.name in ("BERT", "Llama", "ViT")}
STEPS = 4
TIMES, TIMES_OF_MEDIAN = 2.0, 1.2  # of eager's error


def widened(inputs):
    return {k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in inputs.items()}


def gradients(model, call, inputs):
    training_step(call, model, inputs)
    return {name: p.grad.double() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_as_near_to_f64_as_those_of_eager(name):
    torch.manual_seed(0)
    torch._dynamo.reset()
    case = MODELS[name]
    eager = case.model(TESTED).train()
    exact, mine = copy.deepcopy(eager).double(), copy.deepcopy(eager)
    compiled = torch.compile(mine, backend="bascule", options={"on_error": "raise"})
    squares = dict[str, list[float]]()
    for _ in range(STEPS):
        weights = case.model(TESTED).state_dict()
        for model in (eager, exact, mine):
            model.load_state_dict(weights)
        inputs = case.inputs(TESTED)
        true = gradients(exact, exact, widened(inputs))
        with torch.autocast("cpu", torch.bfloat16):
            found = gradients(eager, eager, inputs), gradients(mine, compiled, inputs)
        for place, grads in enumerate(found):
            for parameter, gradient in grads.items():
                squares.setdefault(parameter, [0.0, 0.0])[place] += (gradient - true[parameter]).square().sum().item()
    floor = 1e-6 * max(of_eager for of_eager, _ in squares.values())
    ratios = {what: ((b + floor) / (a + floor)) ** 0.5 for what, (a, b) in squares.items()}
    assert sorted(ratios.values())[len(ratios) // 2] < TIMES_OF_MEDIAN
    assert max(ratios.values()) < TIMES, max(ratios, key=ratios.__getitem__)
