"""Compiled kernels on a GPU, launched by plans of the native launcher."""

from collections.abc import Mapping

from .cuda import CubinImage, Plan, load_kernels
from .plans import Launch


class PlannedKernels:
    """The kernels of `images` by name, loaded on device number `device`; they stay loaded as long as a plan uses them.

    Raises `DriverError` for what the driver refuses.
    """

    def __init__(self, images: Mapping[str, CubinImage], device: int):
        self.images, self.device = images, device
        self.functions = load_kernels(images, device)

    def plan(self, launches: list[Launch]) -> Plan:
        """A plan that issues `launches` with one call: `plan(stream, *slots)`."""
        return Plan([(self.functions[name], programs, arguments) for name, programs, arguments in launches])
