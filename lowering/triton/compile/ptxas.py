"""NVIDIA's assembler, as Triton 3.6 to 3.8 bring it: the architectures that it knows, and what it tells of a kernel."""

import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from bascule.dialect.errors import CompilerError

# Compute capabilities that the assemblers of all these versions know.
KNOWN = frozenset((75, 80, 86, 87, 89, 90, 100, 103, 120, 121))


def _path(capability: int) -> str:
    from triton import knobs

    return (knobs.nvidia.ptxas_blackwell if capability >= 100 else knobs.nvidia.ptxas).path


@cache
def knows(capability: int) -> bool:
    """Whether kernels can be assembled for sm_`capability`. To be asked first: LLVM, which comes before the assembler, ends the process at
    an architecture that it does not know."""
    if capability in KNOWN:
        return True
    command = [_path(capability), f"--gpu-name=sm_{capability}", "--version"]
    return subprocess.run(command, capture_output=True).returncode == 0


def log(ptx: str, capability: int) -> str:
    """Runs the assembler on PTX with `-v`; returns its report. Raises `CompilerError` where it fails."""
    architecture = re.search(r"\.target\s+(\w+)", ptx)
    if architecture is None:
        raise CompilerError("PTX without a .target names no architecture")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        command = [_path(capability), "-v", f"--gpu-name={architecture[1]}", str(path), "-o", f"{folder}/kernel.cubin"]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise CompilerError(f"NVIDIA's assembler fails: {result.stderr}")
    return result.stderr
