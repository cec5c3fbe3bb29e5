"""Host time of a compiled call whose kernels have next to nothing to do: what the wrapper costs, beside eager's and Inductor's.

python -m benchmarks.wrapper_overhead [--only NAME] [--device cuda] [--json FILE]

Medians of alternating rounds in one process, microseconds a call of the one thread's own time, which other processes do not add to. On a GPU
nobody waits for the kernels. A training case is a forward and its backward.
"""

import argparse
import statistics
from functools import partial
from time import thread_time

import torch

from .measure import is_asked_for, print_table, save

BACKENDS = ("eager", "inductor", "bascule")


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


def compiled(name, function):
    """`function` as each backend compiles it."""
    functions = {
        "eager": function,
        "inductor": torch.compile(function),
        "bascule": torch.compile(function, backend="bascule", options={"on_error": "raise"}),
    }
    if name in TRAINING:
        return {backend: partial(training, function) for backend, function in functions.items()}
    return functions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--only", help="parts of cases' names, parted by commas")
    parser.add_argument("--device", default="cpu", help="of the inputs")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rows = []
    torch.set_num_threads(1)
    for name, (function, make) in CASES.items():
        if not is_asked_for(name, arguments.only):
            continue
        torch._dynamo.reset()
        with torch.device(arguments.device):
            inputs = make()
        with torch.set_grad_enabled(name in TRAINING):
            found = measure(compiled(name, function), inputs, arguments.rounds, arguments.calls)
        rows.append({"case": name, **found, "bascule / inductor": found["bascule"] / found["inductor"]})
        save("host time of a compiled call, us", rows, arguments.json)
    header = ["case", *(f"{backend} us" for backend in BACKENDS), "Bascule / Inductor"]
    cells = [[f"{row[b]:.1f}" for b in BACKENDS] + [f"{row['bascule / inductor']:.2f}"] for row in rows]
    print_table(header, [[row["case"], *texts] for row, texts in zip(rows, cells)])


if __name__ == "__main__":
    main()
