"""Two processes that train one small model, eager and then compiled. One of them: `data_parallel.py HOW RANK DEVICE`; prints the losses as JSON.

`HOW` is one of `WAYS`. With the device `cuda` each process has a GPU of its own and NCCL connects them; with `cpu`, gloo does.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys

import torch
import torch.distributed as dist

import bascule

WAYS = ("ddp", "ddp, compiled autograd", "fsdp2")


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


def losses(how, rank, device, compile_):
    """Of three steps; each process has data of its own."""
    torch._dynamo.reset()
    if compile_ and "compiled autograd" in how:
        torch._dynamo.config.optimize_ddp = "python_reducer"
    torch.manual_seed(0)
    module = Model().to(device)
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
        loss = function(torch.randn(8, 16, device=device)).square().mean()
        with scope():
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


@contextlib.contextmanager
def two_processes(file, how, device, **environment):
    """`file HOW RANK DEVICE` as two ranks that can meet, their output in pipes; at the end of the context none of them is left."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1", **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [
        subprocess.Popen([sys.executable, file, how, str(rank), device], env=environment, **pipes) for rank in range(2)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.kill()


def in_two_processes(how, device):
    """The printed results of each process: the losses of three steps, `eager` and `compiled`, and the counter `graphs`."""
    with two_processes(__file__, how, device) as running:
        finished = [process.communicate(timeout=240) for process in running]
    for process, (_, errors) in zip(running, finished):
        assert process.returncode == 0, errors[-3000:]
    return [json.loads(out.splitlines()[-1]) for out, _ in finished]


def main():
    how, rank, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if device == "cuda" else "gloo", rank=rank, world_size=2)
    eager, compiled = (losses(how, rank, device, compile_) for compile_ in (False, True))
    print(json.dumps({"eager": eager, "compiled": compiled, "graphs": bascule.counters()["graphs"]}), flush=True)
    dist.destroy_process_group()
    # gloo's threads outlive the group. One that lets go of a last tensor takes the interpreter's lock, and aborts a process that is at its end.
    os._exit(0)


if __name__ == "__main__":
    main()
