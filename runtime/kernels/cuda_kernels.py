"""Compiled kernels on a GPU, launched by plans of the native launcher."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .cuda_driver import CubinImage, Plan, load_kernels
from .launch_plans import Launch, variant_of

Source: TypeAlias = Mapping[str, Any]  # of a kernel, for the compiler


class PlannedKernels:
    """The kernels of `images` by name, loaded on device number `device`; they stay loaded as long as a plan uses them.

    `later`: what `compiler` makes kernels of when a plan has one of them, by name; all of a variant are made at once. `refuse`: see
    `load_kernels`. Raises `DriverError` for what the driver refuses.
    """

    def __init__(
        self,
        images: Mapping[str, CubinImage],
        device: int,
        later: Mapping[str, Source] | None = None,
        compiler: Callable[[list[Source]], Mapping[str, CubinImage]] = lambda sources: {},
        refuse: Callable[[str, Exception], None] | None = None,
    ):
        self.images, self.device = dict(images), device
        self.later, self.compiler = dict(later or {}), compiler
        self.functions = load_kernels(images, device, refuse)

    def plan(self, launches: list[Launch]) -> Plan:
        """A plan that issues `launches` with one call: `plan(stream, *slots)`. Raises what the compiler raises."""
        missing = {variant_of(name) for name, *_ in launches if name in self.later}
        if missing:
            images = self.compiler([source for name, source in self.later.items() if variant_of(name) in missing])
            self.functions |= load_kernels(images, self.device)
            self.images |= images
            self.later = {name: source for name, source in self.later.items() if name not in images}
        return Plan([(self.functions[name], programs, arguments) for name, programs, arguments in launches])
