"""Many steps of training, eager and compiled side by side. As a program: trains one model and prints the largest difference of the losses."""

import copy
import sys
from dataclasses import replace

import torch

from benchmarks.model_cases import CASES, TESTED, build

MODELS = ("GPT-2", "ResNet")
SIZE = replace(TESTED, vocabulary=61, batch=2)


def largest_difference(name: str, steps: int) -> float:
    """Trains two copies of a model with SGD, one of them compiled; the largest difference of their losses at one step, relative to eager's.

    Raises AssertionError where the loss has not fallen: then the steps have trained nothing.
    """
    (case,) = (case for case in CASES if case.name == name)
    model, _ = build(case, SIZE)
    batches = [case.inputs(SIZE) for _ in range(4)]
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, backend="bascule", options={"on_error": "raise"})
    losses: list[list[float]] = [[], []]
    for call, module, found in ((model, model, losses[0]), (compiled, twin, losses[1])):
        optimizer = torch.optim.SGD(module.train().parameters(), lr=0.02, momentum=0.5)
        for step in range(steps):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            loss = call(**batches[step % len(batches)]).loss
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    eager, other = losses
    assert sum(eager[-4:]) < sum(eager[:4]), f"the loss of {name} has not fallen: {eager[:4]} .. {eager[-4:]}"
    return max(abs(a - b) / abs(a) for a, b in zip(eager, other))


if __name__ == "__main__":
    print(largest_difference(sys.argv[1], int(sys.argv[2])))
