"""`make demo`: a small GPT-2 trains eagerly and compiled; losses side by side, step times, and what the compiler made."""

import time

import torch
import transformers

import bascule

STEPS = 10


def make() -> tuple[torch.nn.Module, torch.Tensor]:
    """The model in training mode and a batch of token numbers, the same at every call."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=2000, n_positions=128, n_embd=192, n_layer=4, n_head=6, bos_token_id=0, eos_token_id=0
    )
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    return transformers.GPT2LMHeadModel(config).train(), torch.randint(0, 2000, (4, 128))


def train(compile_: bool) -> tuple[list[float], list[float]]:
    """(losses, seconds) of `STEPS` steps of AdamW on one batch, from the same seed."""
    model, ids = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    call = torch.compile(model, backend="bascule") if compile_ else model
    losses, seconds = [], []
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = call(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return losses, seconds


def main() -> None:
    print(f"GPT-2, 4 layers of 192, batch 4 x 128, {torch.get_num_threads()} threads\n")
    eager, compiled = train(False), train(True)
    print("step   eager loss  compiled loss   eager ms  compiled ms")
    for i in range(STEPS):
        print(
            f"{i:4} {eager[0][i]:12.6f} {compiled[0][i]:14.6f} {1e3 * eager[1][i]:10.1f} {1e3 * compiled[1][i]:12.1f}"
            + ("   (compiles)" if i == 0 else "")
        )
    worst = max(abs(a - b) for a, b in zip(eager[0], compiled[0]))
    print(f"\nlargest difference of the losses: {worst:.2e}\n")
    model, ids = make()
    print(bascule.explain(model, input_ids=ids, labels=ids, use_cache=False))


if __name__ == "__main__":
    main()
