"""The simulator beside what a profiler measured on two H200s: `benchmarks/results/cuda_ranks_h200.json`."""

import json
from pathlib import Path

import pytest

from benchmarks.rank_models import SIZES

from .predicted_ranks import predictions

RESULTS = Path(__file__).parents[2] / "benchmarks/results/cuda_ranks_h200.json"
COMMUNICATION, EXPOSED = 0.08, 0.15  # relative


@pytest.mark.parametrize(
    "model, way, graphs",
    [*((m, "tp", 1) for m in SIZES), ("llama", "fsdp_graph", 1), *((m, "fsdp2_tp", 0) for m in SIZES)],
)
def test_communication_is_as_measured(model, way, graphs):
    """`graphs`: of a model, each way; 0: one a layer."""
    told = predictions(model, way, ranks=2)
    (row,) = [row for row in json.loads(RESULTS.read_text())["rows"] if row["case"] == f"{model}, {way}"]
    times = 1e3 * (graphs or SIZES[model].layers)
    measured = row["bascule"]
    assert times * sum(one.communication for one in told) == pytest.approx(
        measured["communication_ms"], rel=COMMUNICATION
    )
    assert times * sum(one.exposed for one in told) == pytest.approx(measured["exposed_ms"], rel=EXPOSED)
