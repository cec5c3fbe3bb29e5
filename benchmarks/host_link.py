"""The link of a GPU to its host: seconds of a copy of pinned memory, by its bytes, each way, and both ways at a time.

python -m benchmarks.host_link [--json FILE]

A line through the times of the smallest and the largest copy gives `latency` and the rates of `dialect/machines/pcie.toml`.
"""

import argparse
import statistics

import torch

from .measure import print_table, save

SIZES = tuple(1 << k for k in range(12, 30, 2))  # bytes
REPEATS = 20


def seconds(size: int, *ways: str) -> float:
    """Of copies of `size` bytes, one for each of `ways`, "to host" or "to device", at a time; the median."""
    device = [torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in ways]
    host = [torch.zeros(size, dtype=torch.uint8, pin_memory=True) for _ in ways]
    streams = [torch.cuda.Stream() for _ in ways]
    found = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for way, stream, x, y in zip(ways, streams, device, host):
            stream.wait_event(begin)
            with torch.cuda.stream(stream):
                (y if way == "to host" else x).copy_(x if way == "to host" else y, non_blocking=True)
            torch.cuda.current_stream().wait_stream(stream)
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = []
    for size in SIZES:
        ways = {
            "to host": seconds(size, "to host"),
            "to device": seconds(size, "to device"),
            "both": seconds(size, "to host", "to device"),
        }
        rows.append({"bytes": size, **{way: {"us": 1e6 * taken} for way, taken in ways.items()}})
    small, large = rows[0], rows[-1]
    for way in ("to host", "to device"):
        rate = (large["bytes"] - small["bytes"]) / (large[way]["us"] - small[way]["us"]) * 1e6
        print(f"{way}: latency {small[way]['us']:.1f} us, {rate:.3g} bytes/s")
    lines = [
        [str(row["bytes"]), *(f"{row[way]['us']:.1f}" for way in ("to host", "to device", "both"))] for row in rows
    ]
    print_table(["bytes", "to host, us", "to device, us", "both, us"], lines)
    save("copies between a GPU and its host, us", rows, args.json)


if __name__ == "__main__":
    main()
