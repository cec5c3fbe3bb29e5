"""Host time of a compiled call whose kernels have next to nothing to do: what the wrapper costs, beside eager's and Inductor's.

    python benchmarks/wrapper_overhead.py

Medians of alternating rounds in one process, microseconds a call.
"""

import argparse
import json
import statistics
from pathlib import Path
from time import perf_counter

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


CASES = {
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
            start = perf_counter()
            for _ in range(calls):
                function(*inputs)
            times[name].append((perf_counter() - start) / calls * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=300)
    arguments = parser.parse_args()
    table = {}
    print(f"{'case':20} {'eager':>8} {'inductor':>9} {'bascule':>8}   microseconds a call")
    with torch.no_grad():
        for name, (function, make) in CASES.items():
            torch._dynamo.reset()
            functions = {
                "eager": function,
                "inductor": torch.compile(function),
                "bascule": torch.compile(function, backend="bascule", options={"on_error": "raise"}),
            }
            found = table[name] = measure(functions, make(), arguments.rounds, arguments.calls)
            print(f"{name:20} {found['eager']:8.1f} {found['inductor']:9.1f} {found['bascule']:8.1f}", flush=True)
    RESULTS.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
