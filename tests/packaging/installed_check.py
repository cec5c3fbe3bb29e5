"""Checks of an installed wheel, run by the Python of its environment: `python -I installed_check.py SOURCE_TREE`."""

import subprocess
import sys
import warnings
from importlib.metadata import distribution
from pathlib import Path

import torch


def main(source: Path) -> None:
    on_path = [entry for entry in sys.path if Path(entry).resolve().is_relative_to(source)]
    assert not on_path, f"the source tree is on the path: {on_path}"
    compiles()  # before anything imports Bascule: the backend is found by its name
    launcher_loads()
    programs_run()


def compiles() -> None:
    """A training step is compiled, all of it, and is eager's."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16)).double()
    x = torch.randn(4, 8, dtype=torch.double)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("default", module=r"torch\.")  # PyTorch's own are no matter of the wheel
        compiled = torch.compile(model, backend="bascule", options={"on_error": "raise", "fallback": "error"})
        found = compiled(x)
    torch.testing.assert_close(found, model(x))
    wanted = torch.autograd.grad(model(x).cos().sum(), list(model.parameters()))
    torch.testing.assert_close(torch.autograd.grad(found.cos().sum(), list(model.parameters())), wanted)


def launcher_loads() -> None:
    from bascule.runtime import _native

    place = Path(_native.__file__)
    assert place.is_relative_to(sys.prefix), place
    try:
        _native.open_driver("no such library")
    except _native.DriverError:
        return
    raise AssertionError("a driver was opened that is not there")


def programs_run() -> None:
    """Each program tells how it is used."""
    programs = [point.name for point in distribution("bascule").entry_points if point.group == "console_scripts"]
    assert "bascule-opt" in programs, programs
    for name in programs:
        done = subprocess.run([str(Path(sys.executable).with_name(name)), "--help"], capture_output=True, text=True)
        assert done.returncode == 0 and "usage" in done.stdout, f"{name} --help: {done.stdout}{done.stderr}"


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
