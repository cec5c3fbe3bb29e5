"""The records of `bench` as a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HEADER = ("kernel", "source", "operators", "shapes", "median", "min", "bytes", "flops", "limit", "predicted", "ratio")
WIDE = 44  # characters of what may be long: longer text is cut


def table_of(told: Mapping[str, Any]) -> str:
    """A table a graph; then what the interpreter did not confirm."""
    return "\n\n".join("\n".join(_graph(graph, told["threads"])) for graph in told["graphs"])


def _graph(graph: Mapping[str, Any], threads: int) -> Iterator[str]:
    on = f", {threads} threads" if graph["target"] == "cpu" else ""
    yield f"{graph['graph']}: {graph['target']}{on}, limits of the machine {graph['machine']}"
    rows = [HEADER, *(_row(kernel) for kernel in graph["kernels"])]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
    checked = [kernel for kernel in graph["kernels"] if kernel["measured"]["check"] is not None]
    if checked:
        wrong = [kernel for kernel in checked if not kernel["measured"]["check"]["match"]]
        yield f"match (interpreted): {len(checked) - len(wrong)} of {len(checked)} kernels"
        for kernel in wrong:
            yield f"mismatch (interpreted): {kernel['name']}"
            yield from (f"  {line}" for line in kernel["measured"]["check"]["differences"])


def _row(kernel: Mapping[str, Any]) -> Sequence[str]:
    measured = kernel["measured"]
    ratio = measured["ratio"]
    return (
        kernel["name"],
        _cut((kernel["sources"] or [""])[0], end=True),
        _cut(", ".join(name.removeprefix("aten.").removesuffix(".default") for name in kernel["operators"])),
        _cut(" ".join("x".join(map(str, shape)) or "1" for shape in measured["shapes"])),
        _time(measured["median_us"]),
        _time(measured["min_us"]),
        f"{measured['bytes_read'] + measured['bytes_written']:,}",
        f"{measured['flops']:,}",
        _time(measured["limit_us"]),
        "-" if kernel["predicted_us"] is None else _time(kernel["predicted_us"]),
        "-" if ratio is None else f"{ratio:.1f}",
    )


def _time(microseconds: float) -> str:
    return f"{microseconds:.2f} us" if microseconds < 1000 else f"{microseconds / 1000:.2f} ms"


def _cut(text: str, end: bool = False) -> str:
    if len(text) <= WIDE:
        return text
    return f"..{text[2 - WIDE :]}" if end else f"{text[: WIDE - 2]}.."


def mismatches(told: Mapping[str, Any]) -> int:
    """How many kernels the interpreter does not confirm."""
    checks = [kernel["measured"]["check"] for graph in told["graphs"] for kernel in graph["kernels"]]
    return sum(check is not None and not check["match"] for check in checks)
