"""How compile time grows with the graph: chains of layers from about 500 to 16000 nodes, with the time of each stage.

python -m benchmarks.compile_time [--most NODES] [--json FILE]

The last line has the exponent of each stage's growth from the smallest graph to the largest: 1 is linear, 2 quadratic.
"""

import argparse
import math
import time

import torch

import bascule

from .measure import print_table, save

NODES_A_LAYER = 19


def chain(layers: int):
    """`layers` layers of about twenty nodes each; every layer's shape is its own, so that kernels are not shared."""

    def run(x, weights):
        for i, w in enumerate(weights):
            h = torch.nn.functional.layer_norm(x, (x.shape[-1],)) * w
            h = torch.nn.functional.gelu(h + float(i)) @ torch.eye(x.shape[-1])
            x = x + torch.softmax(h, -1)
        return x

    return run, [torch.randn(8, 64), [torch.randn(64) for _ in range(layers)]]


def growth(rows: list[dict], key: str) -> float:
    """e of time ~ nodes ** e, between the first row and the last; nan where nothing was measured."""
    first, last = rows[0], rows[-1]
    if not first.get(key) or not last.get(key) or first is last:
        return math.nan
    return math.log(last[key] / first[key]) / math.log(last["nodes"] / first["nodes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--most", type=int, default=16000, help="no graph larger than about this")
    args = parser.parse_args()
    rows = []
    for nodes in (n for n in (500, 1000, 2000, 4000, 8000, 16000) if n <= args.most):
        torch._dynamo.reset()
        run, inputs = chain(nodes // NODES_A_LAYER)
        start = time.perf_counter()
        with torch.no_grad():
            explanation = bascule.explain(run, *inputs)
        graph = max(explanation.graphs, key=lambda graph: graph.nodes)
        rows.append({"nodes": graph.nodes, "total": time.perf_counter() - start, **graph.seconds})
        print(rows[-1], flush=True)
    stages = [key for key in rows[0] if key not in ("nodes", "total")]
    stages.sort(key=lambda stage: -rows[-1].get(stage, 0.0))
    lines = [[str(r["nodes"]), f"{r['total']:.2f}", *(f"{r.get(s, 0.0):.2f}" for s in stages)] for r in rows]
    lines.append(["growth", *(f"{growth(rows, key):.2f}" for key in ("total", *stages))])
    print_table(["nodes", "total s", *stages], lines)
    save("compile time by graph size, seconds", rows, args.json)


if __name__ == "__main__":
    main()
