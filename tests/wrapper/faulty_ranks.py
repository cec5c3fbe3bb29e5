"""Two processes, one of which is killed, fails to compile, or compiles for long. One of them: `faulty_ranks.py HOW RANK DEVICE`; prints as JSON
what it computed, or the text of its error.

`HOW` is one of `WAYS`. With the device `cuda` each process has a GPU of its own and NCCL connects them; with `cpu`, gloo does.
"""

import json
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.testing import assert_close

from tests.wrapper.data_parallel import two_processes

WAYS = ("killed", "fails", "late")
WAIT = 15.0  # seconds that a rank waits for another one; 60 where one is late
LATE = 20.0  # seconds
STEPS = 3


def step(x, y, group):
    """Several collectives of unlike sizes, with work between."""
    total = fc.all_reduce(x @ x.t(), "sum", group)
    rows = fc.all_gather_tensor(y.sin(), 0, group)
    return fc.reduce_scatter_tensor(total.relu() + rows.sum(), "sum", 0, group) * 2


def inputs(rank, number, device):
    generator = torch.Generator().manual_seed(10 * number + rank)
    return (torch.randn(64, 32, generator=generator).to(device), torch.randn(5, generator=generator).to(device))


def run(how, rank, device):
    """The means of the results of `STEPS` steps, eager and compiled."""

    def hold(graph):
        if rank == 1 and how == "late":
            time.sleep(LATE)
        if rank == 1 and how == "fails":
            raise ValueError("a pass that fails")

    group = dist.group.WORLD
    compiled = torch.compile(step, backend="bascule", options={"on_error": "raise", "pre_grad_custom_pass": hold})
    found = {"eager": [], "compiled": []}
    for number in range(STEPS):
        x, y = inputs(rank, number, device)
        if how != "fails":  # a rank that fails at once is waited for in the compiled graph
            found["eager"].append(step(x, y, group).mean().item())
        if how == "killed" and rank == 1 and number == STEPS - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        found["compiled"].append(compiled(x, y, group).mean().item())
    return found


def main():
    how, rank, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    # NCCL connects the processes at once where it is told the device, else at the first collective: no time-out ends the wait for that.
    own = torch.device("cuda", rank) if device == "cuda" else None
    if own is not None:
        torch.cuda.set_device(own)
    limit = timedelta(seconds=60.0 if how == "late" else WAIT)
    backend = "gloo" if own is None else "nccl"
    dist.init_process_group(backend, rank=rank, world_size=2, timeout=limit, device_id=own)
    try:
        told = run(how, rank, device)
    except Exception as error:  # is what the test looks at
        told = {"error": "\n".join([str(error), *getattr(error, "__notes__", ())])}
    print(json.dumps(told), flush=True)
    if "error" in told and rank == 1:
        time.sleep(2 * WAIT)  # it does something else, and is not gone
    os._exit(0)  # a group that lost a rank cannot be taken down in order


def in_two_processes(how, device):
    """The texts that the processes print, None of one that was killed; and the seconds until the first had printed."""
    environment = {"TORCH_NCCL_BLOCKING_WAIT": "1", "GLOO_SOCKET_IFNAME": "lo", "BASCULE_CACHE_DIR": ""}
    began = time.monotonic()
    with two_processes(__file__, how, device, **environment) as running:
        out, errors = running[0].communicate(timeout=240)
        seconds = time.monotonic() - began
        assert out, errors[-3000:]
        other = running[1].communicate(timeout=60)[0]
    return [json.loads(text.splitlines()[-1]) if text else None for text in (out, other)], seconds


def check(how, device):
    """Asserts what the process that has no fault tells, and when."""
    (first, second), seconds = in_two_processes(how, device)
    if how == "late":
        for told in (first, second):
            assert_close(told["compiled"], told["eager"], rtol=1e-4, atol=1e-5)
        assert seconds >= LATE
        return
    assert "of the process group '" in first["error"] and "rank 0 (this one): failed in" in first["error"]
    assert ("rank 1: failed to compile graph" if how == "fails" else "rank 1: compiled graph") in first["error"]
    assert (second is None) == (how == "killed") and seconds < 120 + WAIT


if __name__ == "__main__":
    main()
