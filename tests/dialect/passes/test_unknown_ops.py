"""Operations of dialects that are not loaded: no pass of MLIR dies of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from bascule.dialect.passes.pipeline import UpstreamPass
from bascule.dialect.tools import listing, opt

IR = """func.func private @called(%x: i32) -> i32 {
  %0 = "unknown.op"(%x) : (i32) -> i32
  return %0 : i32
}
func.func @f(%x: i32) {
  "unknown.table"() ({ "unknown.end"() : () -> () }) : () -> ()
  return
}
"""


def died(name: str, file: str) -> int:
    """The signal that ended a process in which the pass `name` ran; 0 for none, or for one that takes long."""
    child = os.fork()
    if not child:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        signal.alarm(20)
        try:
            opt.main([file, "--allow-unregistered-dialect", f"--pass-pipeline={UpstreamPass(name).spelling()}"])
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) * (os.WTERMSIG(status) != signal.SIGALRM)


def test_no_pass_of_mlir_dies_of_an_unknown_operation(tmp_path):
    file = tmp_path / "unknown.mlir"
    file.write_text(IR)
    code = f"from tests.dialect.passes.test_unknown_ops import dead; print(*dead({str(file)!r}))"
    root = Path(__file__).parents[3]  # in a process with no threads, which may fork
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert result.stdout.split() == []


def dead(file: str) -> list[str]:
    return [name for name in listing.upstream_passes() if died(name, file)]
