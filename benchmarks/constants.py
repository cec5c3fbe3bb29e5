"""Constants of schedules and passes, each halved and doubled: which benchmark kernels are compiled otherwise then, and how long they take.

python -m benchmarks.constants [--device cuda|cpu] [--only CONSTANT] [--kernels NAME] [--seconds S] [--json FILE]

A ratio is the time with the changed constant over the time without, both in this process; where kernels come out the same nothing is timed.
"""

import argparse
import ast
import hashlib
import importlib
import multiprocessing
import os
import pkgutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from bascule.dialect.ir import context
from bascule.dialect.ir.attribute_names import COMPILE
from bascule.dialect.mlir import ir
from bascule.dialect.passes.pipeline import Pipeline

from . import cpu_cases, kernel_cases, kernels
from .measure import geometric_mean, interleaved, is_asked_for, print_table, save

PACKAGES = ("fusion", "passes", "scatters", "scheduling")  # below `bascule.dialect`, where costs decide
FACTORS = {"halved": 0.5, "doubled": 2.0}
WORKERS = 16  # at most: each has a torch of its own in memory
ROUNDS = 2  # turns of the kernel as it is and as the constant has it
Recorded = tuple[str, str]  # IR before a pipeline, and the pipeline


@dataclass(frozen=True)
class Constant:
    """A number at the top of a module, written in capitals."""

    module: str
    name: str
    value: int | float

    def __str__(self) -> str:
        return f"{self.module.removeprefix('bascule.dialect.')}:{self.name}"

    def times(self, factor: float) -> int | float:
        return type(self.value)(self.value * factor)


def constants(device: str) -> list[Constant]:
    """All that kernels of `device` ("cuda", "cpu") may depend on."""
    other = "scheduling.cpu" if device == "cuda" else "scheduling.gpu"
    found = []
    for module in _modules():
        if module.__name__.startswith(f"bascule.dialect.{other}"):
            continue
        for name in _defined(module):
            value = getattr(module, name)
            if type(value) in (int, float) and value > 0:
                found.append(Constant(module.__name__, name, value))
    return found


@contextmanager
def changed(constant: Constant, factor: float) -> Iterator[None]:
    """The constant `factor` times as large, where it is defined and where it is imported."""
    holders = [importlib.import_module(constant.module)]
    for module in _modules():
        if module is not holders[0] and getattr(module, constant.name, None) == constant.value:
            holders += [module] if constant.name not in _defined(module) else []
    try:
        for module in holders:
            setattr(module, constant.name, constant.times(factor))
        yield
    finally:
        for module in holders:
            setattr(module, constant.name, constant.value)


def _modules() -> list[ModuleType]:
    found = []
    for package in PACKAGES:
        root = importlib.import_module(f"bascule.dialect.{package}")
        walked = pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
        found += [importlib.import_module(info.name) for info in walked]
    return found


def _defined(module: ModuleType) -> list[str]:
    """The names in capitals that the module gives values itself."""
    assert module.__file__ is not None
    body = ast.parse(Path(module.__file__).read_text()).body
    targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return [name for name in names if name.isupper()]


# -- Kernels ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """A benchmark: `make()` gives a step, compiled anew; `timed` the seconds of a step without and with a change."""

    name: str
    make: Callable[[], Callable[[], Any]]
    timed: Callable[[Callable[[], Any], Callable[[], Any]], tuple[float, float]]


def benchmarks(device: str) -> list[Kernel]:
    if device == "cpu":
        return [Kernel(case.name, partial(_cpu_step, case), _cpu_seconds) for case in cpu_cases.CASES]
    scratch = torch.empty(kernels.FLUSH, dtype=torch.uint8, device="cuda")
    return [Kernel(case.name, partial(_gpu_step, case), partial(_gpu_seconds, scratch)) for case in kernel_cases.CASES]


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled anew, beside what is compiled of it already: Dynamo tells backends apart, which these are several of."""
    backend = torch._dynamo.lookup_backend("bascule")
    options = {"on_error": "raise", "cache": False}
    return torch.compile(function, backend=lambda gm, inputs: backend(gm, inputs, options=options), dynamic=False)


def _cpu_step(case: cpu_cases.Case) -> Callable[[], Any]:
    torch.manual_seed(0)
    run, inputs = case.make()
    return _called(cpu_cases.step(case, _compiled(run), inputs))


def _gpu_step(case: kernel_cases.KernelCase) -> Callable[[], Any]:
    torch.manual_seed(0)
    return _called(kernels.runner(case, _compiled(case.function), case.make(1)))


def _called(step: Callable[[], Any]) -> Callable[[], Any]:
    """`step`, so often called that nothing is compiled any more."""
    for _ in range(3):
        step()
    return step


def _cpu_seconds(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    medians = interleaved({"one": one, "other": other}, seconds=0.5, turn=5)
    return medians["one"], medians["other"]


def _gpu_seconds(scratch: torch.Tensor, one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    hosts = [kernels.host_ms(step) for step in (one, other)]
    turns = [
        [1e-3 * kernels.gpu_ms(step, scratch, host) for step, host in zip((one, other), hosts)] for _ in range(ROUNDS)
    ]
    return tuple(statistics.median(column) for column in zip(*turns))  # type: ignore[return-value]


# -- What a constant changes -----------------------------------------------------------------------------------------------------


def recorded(kernel: Kernel) -> tuple[Callable[[], Any], list[Recorded]]:
    """`kernel` compiled, the graphs that it is made of, and the pipelines they went through."""
    found, run = list[Recorded](), Pipeline.run

    def recording(pipeline: Pipeline, module: ir.Module, **kwargs: Any) -> None:
        found.append((_nameless(module), str(pipeline)))
        run(pipeline, module, **kwargs)

    Pipeline.run = recording  # type: ignore[method-assign]
    try:
        step = kernel.make()
    finally:
        Pipeline.run = run  # type: ignore[method-assign]
    assert found, f"{kernel.name} was not compiled"
    return step, found


def _nameless(module: ir.Module) -> str:
    """The text of `module` without its graph's name and number, which are others each time it is compiled."""
    copy = module.operation.clone()
    if COMPILE in copy.attributes:
        del copy.attributes[COMPILE]
    return str(copy)


def digest(graphs: Sequence[Recorded]) -> str:
    """A hash of the IR that the pipelines make of `graphs`, or why there is none."""
    told = hashlib.sha256()
    for text, pipeline in graphs:
        with context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            try:
                Pipeline.parse(pipeline).run(module)
            except Exception as error:  # a constant that a pass does not take is a result, too
                return f"{type(error).__name__}: {error}"
            told.update(str(module).encode())
    return told.hexdigest()


def digests(graphs: dict[str, list[Recorded]], constant: Constant | None, factor: float) -> dict[str, str]:
    """Of each kernel, with `constant` changed."""
    if constant is None:
        return {name: digest(each) for name, each in graphs.items()}
    with changed(constant, factor):
        return {name: digest(each) for name, each in graphs.items()}


def compiled_otherwise(
    graphs: dict[str, list[Recorded]], asked: Sequence[Constant]
) -> dict[tuple[Constant, str], dict[str, str]]:
    """By constant and change: the kernels that come out otherwise, each with its digest."""
    changes = [
        (constant, how) for constant in asked for how in FACTORS if constant.times(FACTORS[how]) != constant.value
    ]
    with ProcessPoolExecutor(min(WORKERS, os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
        base = pool.submit(digests, graphs, None, 1.0)
        found = [pool.submit(digests, graphs, constant, FACTORS[how]) for constant, how in changes]
        return {
            change: {name: hashed for name, hashed in each.result().items() if hashed != base.result()[name]}
            for change, each in zip(changes, found)
        }


def ratios(
    kernel: Kernel, changes: dict[tuple[Constant, str], dict[str, str]], end: float
) -> dict[tuple[Constant, str], float | str]:
    """Of those changes that `kernel` comes out otherwise with: its time then over its time now, or why it does not run. None is begun after
    `end`."""
    torch._dynamo.reset()
    known, found = dict[str, float | str](), dict[tuple[Constant, str], float | str]()
    base: Callable[[], Any] | None = None
    for change, hashes in changes.items():
        hashed = hashes.get(kernel.name)
        if hashed is None or (hashed not in known and time.monotonic() > end):
            continue
        if hashed not in known:
            base = base or recorded(kernel)[0]
            constant, how = change
            try:
                with changed(constant, FACTORS[how]):
                    other, _ = recorded(kernel)
                before, after = kernel.timed(base, other)
                known[hashed] = after / before
            except Exception as error:
                known[hashed] = f"{type(error).__name__}: {error}"[:200]
        found[change] = known[hashed]
    return found


# -- Command line ----------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--only", help="constants whose names contain this, or several between commas")
    parser.add_argument("--kernels", help="the same for kernels")
    parser.add_argument("--seconds", type=float, default=1e9, help="time nothing more after this time")
    parser.add_argument("--json")
    args = parser.parse_args()
    end = time.monotonic() + args.seconds
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1 << 16
    asked = [constant for constant in constants(args.device) if is_asked_for(str(constant), args.only)]
    measured = [kernel for kernel in benchmarks(args.device) if is_asked_for(kernel.name, args.kernels)]
    graphs = {kernel.name: recorded(kernel)[1] for kernel in measured}
    print(f"{len(asked)} constants, {len(measured)} kernels recorded", file=sys.stderr, flush=True)
    changes = compiled_otherwise(graphs, asked)
    rows: list[dict[str, Any]] = [{"constant": str(c), "value": c.value, **{how: {} for how in FACTORS}} for c in asked]
    of = {row["constant"]: row for row in rows}
    for (constant, how), hashes in changes.items():
        of[str(constant)][how] = dict.fromkeys(hashes)
    print(f"{sum(map(len, changes.values()))} differ", file=sys.stderr, flush=True)
    for kernel in measured:
        for (constant, how), ratio in ratios(kernel, changes, end).items():
            of[str(constant)][how][kernel.name] = ratio
        print(f"{kernel.name} timed", file=sys.stderr, flush=True)
        save("constants halved and doubled: time of kernels over that without the change", rows, args.json)
    show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    def cell(found: dict[str, float | str | None]) -> str:
        timed = {name: ratio for name, ratio in found.items() if isinstance(ratio, float)}
        if not timed:
            return f"{len(found)}" if found else ""
        worst, best = max(timed, key=timed.__getitem__), min(timed, key=timed.__getitem__)
        mean = geometric_mean([*timed.values()])
        return f"{len(found)}: {mean:.3f}, {timed[best]:.2f} {best} to {timed[worst]:.2f} {worst}"

    table = [[row["constant"], f"{row['value']:g}", *(cell(row[how]) for how in FACTORS)] for row in rows]
    print_table(["constant", "value", *FACTORS], [line for line in table if any(line[2:])])
    print("without effect on these kernels:", ", ".join(line[0] for line in table if not any(line[2:])))


if __name__ == "__main__":
    main()
