"""`make demo`: a small GPT-2 trains eagerly and compiled; losses side by side, step times, and what the compiler made."""

from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
import transformers

import bascule

STEPS = 10


def make() -> tuple[torch.nn.Module, dict[str, torch.Tensor | bool]]:
    """The model in training mode and its arguments, the same at every call."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=2000, n_positions=128, n_embd=192, n_layer=4, n_head=6, bos_token_id=0, eos_token_id=0
    )
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    ids = torch.randint(0, 2000, (4, 128))
    model = transformers.GPT2LMHeadModel(config).train()
    model.loss_type = "ForCausalLM"  # it is looked for in the class's name, in vain, and the warning breaks the graph
    return model, {"input_ids": ids, "labels": ids, "use_cache": False}


def trainer(compiled: bool) -> Callable[[], tuple[float, float]]:
    """A step of AdamW on one batch, from the same seed: returns (loss, milliseconds)."""
    model, arguments = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    call = torch.compile(model, backend="bascule") if compiled else model

    def step() -> tuple[float, float]:
        start = perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = call(**arguments).loss
        loss.backward()
        optimizer.step()
        return loss.item(), 1e3 * (perf_counter() - start)

    return step


def main() -> None:
    print(f"Training GPT-2, 4 layers of 192, batch 4 x 128, on {torch.get_num_threads()} threads of a CPU\n")
    eager, compiled = trainer(False), trainer(True)
    print("step  eager: loss        ms   compiled: loss        ms")
    steps = []
    for number in range(STEPS):
        (loss, time), (loss_compiled, time_compiled) = eager(), compiled()
        steps.append((loss, time, loss_compiled, time_compiled))
        note = "   the first call compiles, or loads from the disk cache" if number == 0 else ""
        print(f"{number:4} {loss:12.6f} {time:9.1f} {loss_compiled:16.6f} {time_compiled:9.1f}{note}", flush=True)
    worst = max(abs(step[0] - step[2]) for step in steps)
    ours, theirs = (median(step[place] for step in steps[1:]) for place in (3, 1))
    print(f"\nlargest difference of the losses: {worst:.1e}")
    print(f"median step: eager {theirs:.1f} ms, compiled {ours:.1f} ms, {theirs / ours:.2f} times as fast\n")
    print("What bascule.explain(model, **inputs) says of it\n")
    model, arguments = make()
    print(bascule.explain(model, **arguments))


if __name__ == "__main__":
    main()
