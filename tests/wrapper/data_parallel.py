"""One of two processes that train one small model, eager and then compiled: `data_parallel.py HOW RANK`. Prints the losses as JSON.

`HOW`: ddp, "ddp, compiled autograd" or fsdp2. With `BASCULE_TEST_DEVICE=cuda` each process has a GPU of its own and NCCL connects them.
"""

import contextlib
import json
import os
import sys

import torch
import torch.distributed as dist

import bascule

DEVICE = os.environ.get("BASCULE_TEST_DEVICE", "cpu")


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        return x + self.norm(torch.tanh(self.linear(x)))


class Model(torch.nn.Module):
    """Dynamo compiles no frame of PyTorch's own, `Sequential.forward` for one."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def model():
    torch.manual_seed(0)
    return Model().to(DEVICE)


def losses(how, rank, compile_):
    """Of three steps; each process has data of its own."""
    torch._dynamo.reset()
    if compile_ and "compiled autograd" in how:
        torch._dynamo.config.optimize_ddp = "python_reducer"
    module = model()
    if how == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        for layer in module.layers:
            fully_shard(layer)
        fully_shard(module)
    else:
        dist._DEFAULT_FIRST_BUCKET_BYTES = 1000  # several buckets: Dynamo cuts the graph at their ends
        module = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=0.002)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    function = torch.compile(module, backend="bascule", options={"on_error": "raise"}) if compile_ else module
    scope = contextlib.nullcontext
    if compile_ and "compiled autograd" in how:
        scope = lambda: torch._dynamo.compiled_autograd._enable(  # noqa: E731
            torch.compile(backend="bascule", options={"on_error": "raise"})
        )
    found = []
    for step in range(3):
        torch.manual_seed(10 * step + rank)
        loss = function(torch.randn(8, 16, device=DEVICE)).square().mean()
        with scope():
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def main():
    how, rank = sys.argv[1], int(sys.argv[2])
    if DEVICE == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo", rank=rank, world_size=2)
    eager, compiled = losses(how, rank, False), losses(how, rank, True)
    print(json.dumps({"eager": eager, "compiled": compiled, "graphs": bascule.counters()["graphs"]}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
