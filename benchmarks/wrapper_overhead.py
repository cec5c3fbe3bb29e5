"""Host time of a compiled call whose kernels have next to nothing to do: what the wrapper costs, beside eager's and Inductor's.

    python benchmarks/wrapper_overhead.py [--only NAME] [--device cuda]

Medians of alternating rounds in one process, microseconds a call of the one thread's own time, which other processes do not add to. On a GPU
nobody waits for the kernels. A training case is a forward and its backward.
"""

import argparse
import json
import statistics
from functools import partial
from pathlib import Path
from time import thread_time

import torch

RESULTS = Path(__file__).parent / "results" / "wrapper_overhead.json"


def one_kernel(x):
    return x + 1


def ten_inputs(*xs):
    return sum(xs[1:], xs[0])


def written(x, y):
    x.add_(y)
    return x


def three_products(x, w):
    return ((x @ w).sin() @ w).cos() @ w


def reshaped(x):
    return x.view(2, 2)


def layer_norm(x, w, b):
    return torch.nn.functional.layer_norm(x, (16,), w, b)


def adamw(*tensors):
    """One AdamW step: parameters, gradients, first and second moments, in that order."""
    count = len(tensors) // 4
    for i in range(count):
        p, g, m, v = tensors[i::count]
        p.mul_(1 - 1e-5)
        m.lerp_(g, 0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, (v.sqrt() / 0.1).add_(1e-8), value=-1e-3)


def adamw_inputs(count):
    return lambda: [torch.rand(8, 8) for _ in range(4 * count)]


def training(function, *inputs):
    """A call of `function` and its backward."""
    tangent = torch.ones(4, 16, device=inputs[0].device)
    for x in inputs:
        x.grad = None
    function(*inputs).backward(tangent)


TRAINING = {"layer_norm, forward and backward"}
CASES = {
    "layer_norm, forward and backward": (
        layer_norm,
        lambda: [torch.randn(*size, requires_grad=True) for size in ((4, 16), (16,), (16,))],
    ),
    "no kernel: a view": (reshaped, lambda: [torch.ones(4)]),
    "AdamW, 16 tensors": (adamw, adamw_inputs(16)),
    "AdamW, 128 tensors": (adamw, adamw_inputs(128)),
    "one kernel": (one_kernel, lambda: [torch.ones(4)]),
    "ten inputs": (ten_inputs, lambda: [torch.ones(4) for _ in range(10)]),
    "an input written": (written, lambda: [torch.ones(4), torch.ones(4)]),
    "three products": (three_products, lambda: [torch.ones(4, 4), torch.ones(4, 4)]),
}


def measure(functions, inputs, rounds, calls):
    """Median microseconds a call of each function, the rounds alternating."""
    times = {name: [] for name in functions}
    for function in functions.values():
        for _ in range(50):
            function(*inputs)
    for _ in range(rounds):
        for name, function in functions.items():
            start = thread_time()
            for _ in range(calls):
                function(*inputs)
            times[name].append((thread_time() - start) / calls * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--only", help="part of a case's name; nothing is saved then")
    parser.add_argument("--device", default="cpu", help="of the inputs; only what is measured on the CPU is saved")
    arguments = parser.parse_args()
    table = {}
    print(f"{'case':34} {'eager':>8} {'inductor':>9} {'bascule':>8}   microseconds a call")
    torch.set_num_threads(1)
    for name, (function, make) in CASES.items():
        if arguments.only and arguments.only not in name:
            continue
        torch._dynamo.reset()
        with torch.device(arguments.device):
            inputs = make()
        with torch.set_grad_enabled(name in TRAINING):
            functions = {
                "eager": function,
                "inductor": torch.compile(function),
                "bascule": torch.compile(function, backend="bascule", options={"on_error": "raise"}),
            }
            if name in TRAINING:
                functions = {backend: partial(training, function) for backend, function in functions.items()}
            found = table[name] = measure(functions, inputs, arguments.rounds, arguments.calls)
            print(f"{name:34} {found['eager']:8.1f} {found['inductor']:9.1f} {found['bascule']:8.1f}", flush=True)
    if not arguments.only and arguments.device == "cpu":
        RESULTS.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
