"""Channels-last images and short rows on a CPU, of sizes known to the compiler and not: eager, Inductor and Bascule in one process, by turns.

    python -m benchmarks.cpu_layouts [--only NAME,...] [--seconds S] [--json FILE]

On one thread, by its processor time; results are compared with eager's in f64 before anything is timed.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from .cpu_breadth import agree, copies, in_f64, medians, step
from .measure import geometric_mean, is_asked_for, print_table, save

IMAGES = ((4, 3, 64, 64), (4, 48, 32, 32))  # batch, channels, rows, columns
ROWS = ((8192, 8), (4096, 24), (4096, 48), (1024, 200), (64, 4096))
OF_IMAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "elements": lambda x: (x * 2).relu() + 1,
    "batch norm": lambda x: F.batch_norm(x, x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])),
    "softmax of channels": lambda x: x.softmax(1),
    "means of images": lambda x: x.mean((2, 3)),
    "maxima of windows": lambda x: F.max_pool2d(x, 2),
    "group norm": lambda x: F.group_norm(x, 1),
    "sum": lambda x: x.sum(),
    "cat": lambda x: torch.cat([x, x * 2], 1),
}
OF_ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(-1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "row sums": lambda x: x.sum(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "row maxima": lambda x: x.amax(-1),
    "distances": lambda x: torch.exp(-(x - x[:1]).square().sum(-1)),
}


def cases() -> list[tuple[str, Callable[[Tensor], Tensor], Tensor]]:
    images = [torch.randn(size).contiguous(memory_format=torch.channels_last) for size in IMAGES]
    found = [(name, run, x) for name, run in OF_IMAGES.items() for x in images]
    return found + [(name, run, torch.randn(size)) for name, run in OF_ROWS.items() for size in ROWS]


def measure(name: str, run: Callable[[Tensor], Tensor], x: Tensor, dynamic: bool, seconds: float) -> dict:
    """One row: microseconds a call of each backend."""
    torch._dynamo.reset()
    runs = {
        "eager": run,
        "inductor": torch.compile(run, dynamic=dynamic),
        "bascule": torch.compile(run, backend="bascule", dynamic=dynamic, options={"on_error": "raise"}),
    }
    exact, steps = step(run, [in_f64(x)], False)(), {key: step(made, copies([x]), False) for key, made in runs.items()}
    want = steps["eager"]()
    for made in steps.values():
        agree([y.clone() for y in made()], want, exact)
    found = medians(steps, seconds, time.thread_time)
    sizes = "not known" if dynamic else "known"
    return {"program": name, "size": " x ".join(map(str, x.shape)), "sizes": sizes} | {
        key: 1e6 * value for key, value in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=0.2, help="a backend")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    asked = [case for case in cases() if is_asked_for(case[0], args.only)]
    rows = [measure(*case, dynamic, args.seconds) for case in asked for dynamic in (False, True)]
    table = [
        [
            *map(str, list(row.values())[:3]),
            *(f"{row[key]:.1f}" for key in ("eager", "inductor", "bascule")),
            _ratio(row),
        ]
        for row in rows
    ]
    print_table(["program", "size", "sizes", "eager us", "inductor us", "bascule us", "inductor / bascule"], table)
    for sizes in ("known", "not known"):
        print(sizes, f"{geometric_mean([r['inductor'] / r['bascule'] for r in rows if r['sizes'] == sizes]):.2f}")
    save("images in channels-last and short rows on a CPU, microseconds", rows, args.json, device="cpu")


def _ratio(row: dict) -> str:
    return f"{row['inductor'] / row['bascule']:.2f}"


if __name__ == "__main__":
    main()
