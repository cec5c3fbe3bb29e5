"""Tries fresh cases of every generator, and writes down what differs from eager.

    python -m tests.generators [--only views,special_values] [--count 500] [--seed 0] [--failures DIR]

Without `--seed` the seeds are new in every run. Exit status 1 if something differs that `aot_eager` does right.
"""

import argparse
import time
from pathlib import Path
from random import Random

import torch

from tests.generators.cases import check, generators, refusals


def main() -> None:
    known = generators()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"some of {', '.join(known)}")
    parser.add_argument("--count", type=int, default=200, help="of each generator")
    parser.add_argument("--seed", type=int, help="of the first case")
    parser.add_argument("--failures", type=Path, default=Path("soak_failures"))
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else [*known]
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"no generator {', '.join(unknown)}; there are {', '.join(known)}")
    first = Random().randrange(1 << 40) if arguments.seed is None else arguments.seed
    wrong = [_tried(name, known[name], range(first, first + arguments.count), arguments.failures) for name in chosen]
    raise SystemExit(any(wrong))


def _tried(name: str, draw, seeds: range, failures: Path) -> int:
    """How many cases differ."""
    wrong, pytorch, began = 0, 0, time.monotonic()
    refusals.clear()
    for seed in seeds:
        torch._dynamo.reset()
        finding = check(draw(Random(seed)))
        if finding is None:
            continue
        if finding.pytorch:
            pytorch += 1
            continue
        wrong += 1
        failures.mkdir(parents=True, exist_ok=True)
        (failures / f"{name}_{seed}.py").write_text(finding.text())
        print(f"{name} {seed}: {finding.differences[0].splitlines()[0]}", flush=True)
    print(
        f"{name}: {len(seeds)} cases from seed {seeds[0]}, {wrong} differ, {pytorch} in aot_eager too, "
        f"{refusals.total()} refused as documented, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    for reason, count in refusals.most_common():
        print(f"{name}: refused {count} times: {reason}", flush=True)
    return wrong


if __name__ == "__main__":
    main()
