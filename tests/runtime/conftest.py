"""A fake libcuda, built once a session by the C++ compiler."""

import contextlib
import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from bascule.runtime.kernels import cuda_driver


class FakeDriver:
    """The functions of `fake_cuda.cpp`, and the images it takes."""

    def __init__(self, path):
        self.path = str(path)
        self._library = ctypes.CDLL(self.path)
        self._library.fake_log.restype = ctypes.c_char_p
        for name in (
            "fake_live_modules",
            "fake_launches",
            "fake_balance",
            "fake_live_graphs",
            "fake_graph_launches",
            "fake_parameters_set",
        ):
            getattr(self._library, name).restype = ctypes.c_long

    def __getattr__(self, name):
        return getattr(self._library, f"fake_{name}")

    def fail(self, function, status, after=0):
        self._library.fake_fail(function.encode(), status, after)

    def lines(self):
        return self._library.fake_log().decode().splitlines()

    @staticmethod
    def image(**kernels):
        """An image of kernels with these parameter sizes, to which the two pointers that Triton 3.6 adds are appended."""
        text = ";".join(f"{name}:{','.join(map(str, (*sizes, 8, 8)))}" for name, sizes in kernels.items())
        return b"\x7fELF".ljust(64, b"\0") + text.encode() + b"\0"

    def function(self, name, sizes, *, warps=4, shared=0, location="model.py:12", device=0, early=False, maps=()):
        cubin = cuda_driver.Cubin(self.image(**{name: sizes}), device)
        return cubin.function(name, warps, shared, location, early, maps)


@pytest.fixture(scope="session")
def fake_compiler():
    """A function that builds the fake at a path, with flags."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    assert compiler, "the fake driver needs a C++ compiler"
    source = Path(__file__).parent / "kernels" / "fake_cuda.cpp"

    def build(path, *flags):
        command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", *flags, "-o", path, source]
        subprocess.run(command, check=True)
        return path

    return build


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory, fake_compiler):
    return fake_compiler(tmp_path_factory.mktemp("fake_cuda") / "libcuda.so.1")


@pytest.fixture
def driver(fake_library):
    fake = FakeDriver(fake_library)
    fake.reset()
    cuda_driver.open_driver(fake.path)
    yield fake
    fake.reset()
    with contextlib.suppress(cuda_driver.DriverError):  # there may be none
        cuda_driver.open_driver()  # the system's again
