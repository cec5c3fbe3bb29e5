"""The benchmark of several ranks runs on a CPU, in a tiny size, and says what it should."""

import json
import os
import subprocess
import sys

from tests.docs.test_results import check


def test_two_ranks_train_as_eager(tmp_path):
    path = tmp_path / "ranks.json"
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--standalone",
        "-m",
        "benchmarks.ranks",
    ]
    command += [
        "--tiny",
        "--device=cpu",
        "--models=llama",
        "--ways=fsdp_graph,ddp,fsdp2",
        "--compilers=eager,bascule",
        "--steps=1",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run([*command, f"--json={path}"], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(path.read_text())
    check(told)
    rows = [row["bascule"] for row in told["rows"]]
    for row, way in zip(rows, ("compiled graphs", "DDP", "FSDP2"), strict=True):
        assert row["equal"] and row["step_ms"] > 0 and not row["fallbacks"]
        whole = row["predicted_step"]
        assert whole["way"] == way and whole["as_begun"] and whole["collectives"]
        assert 0 < whole["exposed_ms"] <= whole["communication_ms"] < whole["step_ms"]
    predicted = rows[0]["predicted"]
    assert 0 < predicted["exposed predicted, ns"] < predicted["exposed_before predicted, ns"]
