"""Training steps within memory budgets on the CPU: the predicted peak beside the measured one, least budgets, and the solver's time.

python -m benchmarks.memory_budget [--what peaks] [--only NAME,NAME] [--parts 1.0,0.8,0.6] [--json FILE]
python -m benchmarks.memory_budget --what search [--layers 24] [--json FILE]
python -m benchmarks.memory_budget --what solver [--nodes 3500] [--json FILE]

`peaks`: a part of the peak without a budget is the budget, or the least one that is possible, if that is more; measured is what the allocator
has handed out during two steps at most, with what lives before them; what the model returns is held until the step's end. `seconds`: of the
search. `search`: seconds that a first step of a GPT-2 of so many layers takes, with a budget and without. `solver`: seconds of HiGHS for the
choices of a step of so many nodes.
"""

import argparse
import re
import subprocess
import sys
import time

import torch

from .measure import is_asked_for, print_table, save
from .memory import peak_bytes

LOSSES = {"GPT-2": "ForCausalLM", "Llama": "ForCausalLM", "Mixtral": "ForCausalLM"}
WIDTH = 64  # of the layers of the step that the solver is given


def standing_bytes(model: torch.nn.Module, inputs: dict) -> int:
    """Bytes of parameters, buffers and inputs, those of a storage once."""
    tensors = [*model.parameters(), *model.buffers(), *(x for x in inputs.values() if isinstance(x, torch.Tensor))]
    storages = {x.untyped_storage()._cdata: x.untyped_storage().nbytes() for x in tensors}
    return sum(storages.values())


def child(name: str, part: float | None) -> None:
    """In a fresh process: prints the predicted and the measured peak, in bytes; a digest of the loss and of the gradients; the seconds of the
    search. `part`: the budget, in bytes if it is over 1."""
    from bascule.runtime import release_arenas

    from bascule.budget import partition

    from .model_cases import CASES, build

    model, inputs = build(next(case for case in CASES if case.name == name))
    if name in LOSSES:  # else a warning about it breaks the graph
        model.config.loss_type = model.loss_type = LOSSES[name]
    model(**inputs)  # a first call sets up what breaks the graph, or has it compiled twice
    predicted: list[int] = []
    seconds: list[float] = []
    budget = part if part is None or part <= 1 else int(part)
    options = {"on_error": "raise", "cache": False} | ({} if budget is None else {"memory_budget": budget})
    if part is not None:
        within = partition.Search.within

        def told(search: partition.Search, limit: float) -> object:
            start = time.perf_counter()
            outcome = within(search, limit)
            seconds.append(time.perf_counter() - start)
            predicted.append(outcome.peak.bytes if outcome.peak.exact else -1)
            return outcome

        partition.Search.within = told  # type: ignore[method-assign]
    call = torch.compile(model, backend="bascule", options=options)

    def step() -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        out = call(**inputs)
        out.loss.backward()
        return out.loss.detach()

    step()
    loss = step()
    found = [loss, *(p.grad for p in model.parameters() if p.grad is not None)]
    digest = hash(tuple(x.double().sum().item() for x in found))
    del found, loss
    model.zero_grad(set_to_none=True)
    release_arenas()

    measured = standing_bytes(model, inputs) + peak_bytes(lambda: (step(), step()))
    print(sum(predicted) if predicted else 0, measured, digest, len(predicted), f"{sum(seconds):.2f}")


def peaks(names: list[str], parts: list[float]) -> list[dict]:
    rows = []
    for name in names:
        for part in [None, *parts]:
            row: dict = {"model": name, "part": part}
            out = started(name, part)
            least = re.search(r"\((\d+) bytes\) at least", out.stderr)
            if least is not None:
                row["least_mib"] = int(least[1]) / 2**20
                out = started(name, int(least[1]))
            if out.returncode:
                row["error"] = out.stderr.strip().splitlines()[-1][:300] if out.stderr.strip() else str(out.returncode)
            else:
                *numbers, seconds = out.stdout.split()[-5:]
                predicted, measured, digest, graphs = map(int, numbers)
                row |= {"predicted_mib": predicted / 2**20, "measured_mib": measured / 2**20}
                row |= {"digest": digest, "graphs": graphs, "seconds": float(seconds)}
            rows.append(row)
            print(f"  {row}", file=sys.stderr)
    return rows


def started(name: str, part: float | None) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "benchmarks.memory_budget", "--child", name]
    return subprocess.run(
        command + ([] if part is None else ["--parts", str(part)]), capture_output=True, text=True, check=False
    )


def search(layers: int) -> list[dict]:
    """Seconds of the first call and of the backward of a GPT-2 of so many layers, in processes of their own."""
    rows = []
    for budget in (None, "0.8"):
        command = [sys.executable, "-m", "benchmarks.memory_budget", "--first", str(layers)]
        out = subprocess.run(
            command + ([] if budget is None else ["--parts", budget]), capture_output=True, text=True, check=True
        )
        rows.append({"layers": layers, "part": budget, "seconds": float(out.stdout.split()[-1])})
    return rows


def first(layers: int, part: float | None) -> None:
    """In a fresh process: prints the seconds of a first step."""
    from dataclasses import replace

    from .model_cases import MEASURED, gpt2, tokens_once

    size = replace(MEASURED, layers=layers)
    model, inputs = gpt2(size).train(), tokens_once(size)
    model.config.loss_type = model.loss_type = LOSSES["GPT-2"]
    model(**inputs)
    options = {"on_error": "raise", "cache": False} | ({} if part is None else {"memory_budget": part})
    start = time.perf_counter()
    torch.compile(model, backend="bascule", options=options)(**inputs).loss.backward()
    print(f"{time.perf_counter() - start:.2f}")


def solver(nodes: int) -> list[dict]:
    """The choices for a step of residual layers, whose joint graph has about so many nodes."""
    from bascule.frontend.partitioner import saved_program

    from bascule import memory

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 4 * WIDTH)
            self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x)), approximate="tanh"))

    seconds: list[dict] = []
    solve = saved_program.solve

    def timed(costs, most, integral, rows, limit):
        start = time.perf_counter()
        found = solve(costs, most, integral, rows, limit)
        seconds.append({"variables": len(costs), "seconds": time.perf_counter() - start, "found": found is not None})
        print(f"  {seconds[-1]}", file=sys.stderr)
        return found

    saved_program.solve = timed
    model = torch.nn.Sequential(*(Layer() for _ in range(max(1, nodes // 62))))
    start = time.perf_counter()
    report = memory(lambda x: model(x).square().mean(), torch.randn(512, WIDTH))
    print(report, file=sys.stderr)
    print(f"  the whole report: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=["peaks", "search", "solver"], default="peaks")
    parser.add_argument("--only", help="models with this in their names, or one of several between commas")
    parser.add_argument("--parts", help="budgets, as parts of the peak without one, between commas")
    parser.add_argument("--nodes", type=int, default=3500)
    parser.add_argument("--json")
    parser.add_argument("--layers", type=int, default=24, help="of the GPT-2 of `search`")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, None if args.parts is None else float(args.parts))
        return
    if args.first:
        first(args.first, None if args.parts is None else float(args.parts))
        return
    if args.what == "search":
        rows = search(args.layers)
        print_table(["part", "seconds"], [[str(row["part"]), f"{row['seconds']:.2f}"] for row in rows])
        save(f"memory budget on the CPU: a first step of GPT-2, {args.layers} layers, s", rows, args.json)
        return
    if args.what == "solver":
        rows = solver(args.nodes)
        print_table(["variables", "seconds"], [[str(row["variables"]), f"{row['seconds']:.2f}"] for row in rows])
        save(f"memory budget: the solver, {args.nodes} nodes, s", rows, args.json)
        return
    from .model_cases import CASES

    names = [case.name for case in CASES if is_asked_for(case.name, args.only)]
    rows = peaks(names, [float(part) for part in (args.parts or "1.0,0.8,0.6").split(",")])
    told = [row for row in rows if "error" not in row]
    lines = [
        [row["model"], str(row["part"]), *(f"{row[key]:.2f}" for key in ("predicted_mib", "measured_mib", "seconds"))]
        for row in told
    ]
    print_table(["model", "part", "predicted MiB", "measured MiB", "search s"], lines)
    save("memory budget on the CPU: peaks, MiB", rows, args.json)


if __name__ == "__main__":
    main()
