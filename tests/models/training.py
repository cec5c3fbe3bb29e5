"""Many steps of training, eager and compiled side by side. As a program: trains one model and prints the largest difference of the losses."""

import copy
import sys

import torch
import transformers


def gpt2() -> tuple[torch.nn.Module, list[dict[str, torch.Tensor]]]:
    config = transformers.GPT2Config(
        vocab_size=61, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    batches = [torch.randint(0, 61, (2, 16)) for _ in range(4)]
    return transformers.GPT2LMHeadModel(config), [{"input_ids": b, "labels": b, "use_cache": False} for b in batches]


def resnet() -> tuple[torch.nn.Module, list[dict[str, torch.Tensor]]]:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3
    )
    batches = [(torch.randn(4, 3, 32, 32), torch.randint(0, 3, (4,))) for _ in range(4)]
    return transformers.ResNetForImageClassification(config), [{"pixel_values": x, "labels": y} for x, y in batches]


MODELS = {"gpt2": gpt2, "resnet": resnet}


def largest_difference(name: str, steps: int) -> float:
    """Trains two copies of a model with SGD, one of them compiled; the largest difference of their losses at one step, relative to eager's.

    Raises AssertionError where the loss has not fallen: then the steps have trained nothing.
    """
    torch.manual_seed(0)
    model, batches = MODELS[name]()
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
