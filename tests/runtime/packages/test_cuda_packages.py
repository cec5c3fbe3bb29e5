"""Programs compiled ahead of time for a GPU: packages with Triton's machine code, made without a device and loaded with a fake driver."""

import subprocess
import sys

import pytest
import torch
from bascule.runtime.kernels import cuda_driver
from bascule.runtime.kernels.cubin_images import blobs_of, images_of
from bascule.runtime.kernels.elf_loader import ObjectCodeError
from bascule.runtime.modules.loading import load
from bascule.runtime.packages.container import pack, unpack
from torch._subclasses import FakeTensorMode
from torch.export import Dim, export

import bascule
from tests.blocked_imports import BLOCKED


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.empty(16, device="cuda:0"))

    def forward(self, x):
        return torch.softmax(x * self.scale, -1), x.sum(0)


class Softmax(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1) + 1, x.sum(0)


GRAPH = "graphs/0"  # where a package has its first graph
KERNELS = f"{GRAPH}/kernels/"


@pytest.fixture
def h100(monkeypatch):
    """Answers for the device, which is not there."""
    monkeypatch.setattr(cuda_driver, "capability", lambda device: 90)
    monkeypatch.setattr(cuda_driver, "sm_count", lambda device: 132)
    monkeypatch.setattr(cuda_driver, "l2_bytes", lambda device: 50 << 20)
    monkeypatch.setattr(cuda_driver, "device_name", lambda device: "NVIDIA H100 80GB HBM3")


def packaged(path, module, *, weights="inside", dynamic=False):
    with FakeTensorMode():
        x = torch.empty(8, 16, device="cuda:0")
        shapes = {"x": {0: Dim("rows", min=2, max=4000)}} if dynamic else None
        program = export(module(), (x,), dynamic_shapes=shapes)
    bascule.aot_compile(program, path, weights=weights)
    return unpack(path.read_bytes())


def kernels_of(blobs):
    return {name.removeprefix(KERNELS): blob for name, blob in blobs.items() if name.startswith(KERNELS)}


class Sizes:
    """Takes the place of loaded kernels, and notes the sizes of the parameters that each is launched with."""

    def __init__(self):
        self.of = {}

    def plan(self, launches):
        for name, _, arguments in launches:
            self.of[name] = tuple(4 if kind == "i32" else 8 for *_, kind in arguments)


def with_fake_images(driver, description, blobs):
    """The package, its machine code replaced by images that the fake driver takes."""
    sizes = Sizes()
    load(blobs[f"{GRAPH}/wrapper"].decode(), sizes)
    images = images_of(kernels_of(blobs))
    fakes = {
        name: cuda_driver.CubinImage(
            driver.image(**{image.entry: sizes.of[name]}), image.entry, image.warps, image.shared, image.location
        )
        for name, image in images.items()
    }
    return pack(description, {**blobs, **{f"{KERNELS}{name}": blob for name, blob in blobs_of(fakes).items()}})


def test_a_package_holds_machine_code_and_names_of_weights(tmp_path, h100):
    description, blobs = packaged(tmp_path / "program", Scaled, weights="reference", dynamic=True)
    assert description["graph"]["device"] == "cuda:0"
    assert (description["capabilities"], description["processor"]) == ({"cuda:0": 90}, [])
    assert list(description["weights"]) == ["scale"]
    assert not any(name.startswith("weights/") for name in blobs)
    cubins = [blob for name, blob in kernels_of(blobs).items() if not name.endswith(".json")]
    assert cubins and all(blob.startswith(b"\x7fELF") for blob in cubins)
    assert all(image.early for image in images_of(kernels_of(blobs)).values())


def test_another_architecture_is_refused(tmp_path, h100, monkeypatch):
    packaged(tmp_path / "program", Softmax)
    monkeypatch.setattr(cuda_driver, "capability", lambda device: 100)
    with pytest.raises(ObjectCodeError, match="compiled for sm_90, and cuda:0 is sm_100"):
        bascule.aot_load(tmp_path / "program")


RUN = (
    BLOCKED
    + """
import ctypes
import torch, bascule
from bascule.runtime.kernels import cuda_driver as cuda
cuda.capability = lambda device: 90
cuda.open_driver(sys.argv[2])
program = bascule.aot_load(sys.argv[1])
modules = ctypes.CDLL(sys.argv[2]).fake_live_modules()
try:
    program(torch.ones(8, 16))
except ValueError as error:
    print(modules, error)
"""
)


def test_a_process_without_triton_loads_it(tmp_path, h100, driver):
    path = tmp_path / "program"
    description, blobs = packaged(path, Softmax)
    path.write_bytes(with_fake_images(driver, description, blobs))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path), driver.path], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    modules, says = done.stdout.split(" ", 1)
    assert int(modules) == len(images_of(kernels_of(blobs)))
    assert "is torch.float32 on cpu, the program takes torch.float32 on cuda:0" in says
