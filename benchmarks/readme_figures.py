"""The table and the figure of README.md: what `benchmarks/results` holds of Bascule beside eager and Inductor, as ratios.

python -m benchmarks.readme_figures

A ratio is eager's or Inductor's number over Bascule's, of one case: above 1, Bascule takes less.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
FIGURE = ROOT / "docs" / "measured.svg"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end -->)", re.DOTALL)
OTHERS = ("eager", "inductor")


@dataclass(frozen=True)
class Measure:
    """Numbers of one file: in each row that of a backend stands under its name, or in a dictionary there, as `key`. `suffix`: of the names.
    `beside`: what is compared; `size`: the rows of that size only."""

    title: str
    file: str
    key: str = ""
    suffix: str = ""
    beside: tuple[str, ...] = OTHERS
    size: str = ""

    def rows(self) -> list[dict[str, Any]]:
        rows = json.loads((RESULTS / f"{self.file}.json").read_text())["rows"]
        return [row for row in rows if self._number(row, "bascule") and row.get("size", "") == self.size]

    def ratios(self, other: str) -> dict[str, float]:
        """Case -> the ratio of `other`, in the cases that have both."""
        if other not in self.beside:
            return {}
        found = {}
        for row in self.rows():
            theirs, ours = self._number(row, other), self._number(row, "bascule")
            if theirs:
                name = next(row[what] for what in ("kernel", "model", "case", "operator") if what in row)
                found[name] = theirs / ours
        return found

    def _number(self, row: dict[str, Any], backend: str) -> float | None:
        found = row.get(backend + self.suffix)
        return found.get(self.key) if isinstance(found, dict) else found


MEASURES = (
    Measure("GPU: kernels, time", "cuda_kernels", "gpu_ms"),
    Measure("GPU: models, time of a step", "cuda_models", "ms"),
    Measure("GPU: models, CUDA graphs", "cuda_models_cudagraphs", "ms", "-cudagraphs", beside=("inductor",)),
    Measure("GPU: models, peak memory", "cuda_models", "peak_mib"),
    Measure("GPU: models, first call", "cuda_models", "first_s", beside=("inductor",)),
    Measure("GPU: models, first call, cached", "cuda_models_warm", suffix="-cached", beside=("inductor",)),
    Measure("GPU: small graphs, host time", "cuda_wrapper_overhead"),
    Measure("CPU: kernels, time", "cpu_kernels"),
    Measure("CPU: models, time of a step", "cpu_models_steps"),
    Measure("CPU: models, memory of a step", "cpu_models_memory"),
    Measure("CPU: small graphs, host time", "cpu_wrapper_overhead"),
    Measure("CPU: operators, 64 x 64", "cpu_breadth", beside=("eager",), size="64 x 64"),
    Measure("CPU: operators, 2048 x 2048", "cpu_breadth", beside=("eager",), size="2048 x 2048"),
)


def table() -> str:
    """Markdown: geometric means, and the case in which Bascule does worst beside Inductor (eager, where that is all there is)."""
    lines = ["| | cases | eager / Bascule | Inductor / Bascule | worst |", "| --- | --- | --- | --- | --- |"]
    for measure in MEASURES:
        means = []
        for other in OTHERS:
            ratios = measure.ratios(other)
            means.append(f"{geometric_mean(ratios.values()):.2f}" if ratios else "")
        worst, ratio = min(measure.ratios(measure.beside[-1]).items(), key=lambda case: case[1])
        cells = (measure.title, str(len(measure.rows())), *means, f"{ratio:.2f} {worst}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


# Pixels.
WIDTH, LEFT, TOP, ROW, BOTTOM = 760, 218, 34, 26, 24
LEAST, MOST = 0.125, 64  # ratios at the ends of the axis, which is logarithmic; what is beyond stands at the end
TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
COLOURS = {"eager": "#8a8a8a", "inductor": "#c2571a"}
NAMES = {"eager": "eager / Bascule", "inductor": "Inductor / Bascule"}


def figure() -> str:
    """SVG: a line a measure, a dot a case, a bar at each geometric mean."""
    height = TOP + ROW * len(MEASURES) + BOTTOM
    foot = height - BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="12">',
        "<title>Eager and Inductor over Bascule: time, memory, compile time</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        *_legend(),
    ]
    for tick in TICKS:
        x = _place(tick)
        stroke = "#333" if tick == 1 else "#ddd"
        lines.append(f'<line x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{foot}" stroke="{stroke}"/>')
        lines.append(f'<text x="{x}" y="{foot + 16}" text-anchor="middle">{tick:g}</text>')
    for number, measure in enumerate(MEASURES):
        y = TOP + ROW * number + ROW // 2
        lines.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(measure.title)}</text>')
        for other, offset in zip(OTHERS, (-5, 5)):
            lines += _dots(other, list(measure.ratios(other).values()), y + offset)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _dots(other: str, ratios: list[float], y: int) -> Iterator[str]:
    for ratio in ratios:
        yield f'<circle cx="{_place(ratio)}" cy="{y}" r="2.5" fill="{COLOURS[other]}" fill-opacity="0.5"/>'
    if ratios:
        x = _place(geometric_mean(ratios))
        yield f'<line x1="{x}" y1="{y - 5}" x2="{x}" y2="{y + 5}" stroke="{COLOURS[other]}" stroke-width="3"/>'


def _legend() -> Iterator[str]:
    x = LEFT
    for other in OTHERS:
        yield f'<circle cx="{x}" cy="14" r="4" fill="{COLOURS[other]}"/>'
        yield f'<text x="{x + 9}" y="18">{NAMES[other]}</text>'
        x += 140
    yield f'<text x="{x}" y="18" fill="#555">right of 1: Bascule takes less</text>'


def _place(ratio: float) -> float:
    """Pixels from the left."""
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return round(LEFT + share * (WIDTH - LEFT - 20), 1)


def main() -> None:
    README.write_text(TABLE.sub(lambda _: table(), README.read_text()))
    FIGURE.write_text(figure())


if __name__ == "__main__":
    main()
