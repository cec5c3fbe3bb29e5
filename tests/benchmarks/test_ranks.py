"""The benchmark of several ranks runs on a CPU, in a tiny size, and says what it should."""

import json
import os
import subprocess
import sys

from tests.docs.test_results import check


def rows_of(benchmark, path, *arguments):
    """The rows that a benchmark keeps of two ranks on a CPU, of a tiny Llama, eager and compiled."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m", benchmark]
    command += ["--tiny", "--device=cpu", "--models=llama", "--compilers=eager,bascule", *arguments, f"--json={path}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(path.read_text())
    check(told)
    return told["rows"]


def test_two_ranks_train_as_eager(tmp_path):
    found = rows_of("benchmarks.ranks", tmp_path / "ranks.json", "--ways=fsdp_graph,ddp,fsdp2", "--steps=1")
    rows = [row["bascule"] for row in found]
    for row, way in zip(rows, ("compiled graphs", "DDP", "FSDP2"), strict=True):
        assert row["equal"] and row["step_ms"] > 0 and not row["fallbacks"]
        whole = row["predicted_step"]
        assert whole["way"] == way and whole["as_begun"] and whole["collectives"]
        assert 0 < whole["exposed_ms"] <= whole["communication_ms"] < whole["step_ms"]
    predicted = rows[0]["predicted"]
    assert 0 < predicted["exposed predicted, ns"] < predicted["exposed_before predicted, ns"]


def test_compilers_take_turns(tmp_path):
    (row,) = rows_of("benchmarks.rank_rounds", tmp_path / "rounds.json", "--ways=fsdp2", "--rounds=2", "--steps=1")
    assert row["case"] == "llama, fsdp2" and row["ranks"] == 2
    assert all(
        len(row[compiler]["rounds_ms"]) == 2 and row[compiler]["step_ms"] > 0 for compiler in ("eager", "bascule")
    )
    assert row["eager"]["of_bascule"] > 0
