"""Timing side by side: variants take turns, so that a machine whose speed drifts is fair to all of them."""

import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("bascule", "triton", "transformers", "timm")
FILLING = 2  # processors a process that fills a compiler's disk cache


def interleaved(
    variants: dict[str, Callable[[], Any]], seconds: float = 1.0, least: int = 7, turn: int = 1
) -> dict[str, float]:
    """Median wall-clock seconds of each variant; they are called in turns for about `seconds` each.

    A turn is `turn` calls in a row. Of several the first is not counted: it finds the code of another variant in the caches, which in a
    program that calls one of them again and again it would not.
    """
    for call in variants.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in variants}
    end = time.perf_counter() + seconds * len(variants)
    while time.perf_counter() < end or len(next(iter(times.values()))) < least:
        for name, call in variants.items():
            for number in range(turn):
                start = time.perf_counter()
                call()
                if number or turn == 1:
                    times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def is_asked_for(name: str, only: str | None) -> bool:
    """Whether `only`, what `--only` was given, has part of `name` between its commas; None has all."""
    return not only or any(part in name for part in only.split(","))


def geometric_mean(values: list[float]) -> float:
    return statistics.geometric_mean(values)


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """A Markdown table, its columns aligned."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    line = "| " + " | ".join("{:<" + str(w) + "}" for w in widths) + " |"
    print(line.format(*header))
    print("| " + " | ".join("-" * w for w in widths) + " |")
    for row in rows:
        print(line.format(*row))


def print_ratios(
    rows: list[dict[str, Any]], keys: Sequence[str], inductor: str = "inductor", bascule: str = "bascule"
) -> None:
    """For each key, Inductor's over Bascule's in the geometric mean of the rows that have both, which are called `inductor` and `bascule`."""
    for key in keys:
        both = [row for row in rows if row.get(inductor, {}).get(key) and row.get(bascule, {}).get(key)]
        if both:
            mean = geometric_mean([row[inductor][key] / row[bascule][key] for row in both])
            print(f"{key}: Inductor / Bascule in the geometric mean of {len(both)}: {mean:.3f}")


def versions() -> dict[str, str | None]:
    """Of Python, torch, Bascule, and those packages of `PACKAGES` that are there."""
    found: dict[str, str | None] = {"python": platform.python_version(), "torch": torch.__version__}
    found |= dict.fromkeys(PACKAGES[:2])  # None where they are not there
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def commit() -> str:
    """Of the sources that run; empty where they are in no repository."""
    return _git("rev-parse", "--short=12", "HEAD")


def is_dirty() -> bool:
    """Whether sources differ from the commit."""
    return bool(_git("status", "--porcelain", "--untracked-files=no"))


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def beside(rows: list[dict[str, Any]]) -> dict[str, str | None]:
    """Eager and Inductor: None where the rows have their numbers, else why they have not."""
    named = [text for row in rows for text in (*row, *row.values()) if isinstance(text, str)]
    names = {text.replace("-", " ").replace(",", " ").lower().partition(" ")[0] for text in named}
    return {other: None if other in names else "not measured by this run" for other in ("eager", "inductor")}


def save(name: str, rows: list[dict[str, Any]], path: str | None, *, device: str | None = None) -> None:
    """Writes `rows` as JSON with the machine and versions beside them; `path` None writes nothing. `device`: "cpu" for what ran there though
    there is a GPU."""
    if path is None:
        return
    gpu = device != "cpu" and torch.cuda.is_available()
    device = torch.cuda.get_device_name() if gpu else f"{platform.machine()} CPU"
    record = {
        "benchmark": name,
        "date": date.today().isoformat(),
        "commit": commit(),
        "commit_is": "of the run",
        "dirty": is_dirty(),
        "device": device,
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "missing": beside(rows),
        "rows": rows,
    }
    Path(path).write_text(json.dumps(record, indent=1) + "\n")
