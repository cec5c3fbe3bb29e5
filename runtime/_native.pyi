"""The native launcher (`runtime/native`): loads cubins and issues runs of kernels through the CUDA driver.

Nothing of CUDA is needed until `open_driver` is called, or the first `Cubin` made.
"""

from collections.abc import Iterable, Mapping, Sequence

class DriverError(RuntimeError):
    """What the driver refuses: no driver or GPU, a driver too old, a kernel that does not load or start."""

class KernelError(DriverError):
    """A kernel for which a program of the device has too little: threads, registers, shared memory."""

def open_driver(path: str = "libcuda.so.1") -> None:
    """Opens the driver library at `path` for the cubins loaded from now on. Raises `DriverError`."""

class Function:
    """A kernel that can be launched. It keeps its cubin loaded."""

    name: str
    location: str
    warps: int
    shared: int  # dynamic shared memory a program, bytes
    early: bool
    registers: int  # a thread
    local_bytes: int  # local memory a thread, where spills go

class Cubin:
    """Machine code, loaded in the primary context (PyTorch's) of device number `device`. Raises `DriverError`."""

    device: int
    def __init__(self, data: bytes, device: int) -> None: ...
    def function(
        self,
        name: str,
        warps: int,
        shared: int,
        location: str,
        early: bool = False,
        maps: Sequence[Mapping[str, int | list[int] | list[Number]]] = (),
    ) -> Function:
        """The kernel `name`. `location`, the user's line, is for messages. `early`: it waits itself for what runs before it on its stream, and
        is started while that ends, unless the launch is recorded. `maps`: tensor maps that it takes after the parameters of a launch, each with
        its `parameter` (the number of the pointer), `offset` (bytes from there), `element` and `swizzle` (CUDA's numbers), `sizes`, `strides`
        (bytes, without the first) and `box`, fastest dim first. A size or stride may be of the launch's numbers.

        Raises `DriverError` where there is none of that name, it needs more shared memory or threads than the device has, or tensor maps, which
        an old driver does not encode.
        """

Number = (
    int | list[list[int]]
)  # or terms to be added: a factor, then the numbers of the parameters that it is multiplied by
Slot = tuple[str, int]  # ("slot", number)
Parameter = tuple[str, int, int, str]  # ("slot", number, offset, "ptr" | "i32" | "i64")

class Plan:
    """A run of kernels whose parameters are laid out once.

    `launches` are `(function, grid, parameters)`: the number of programs is an integer or `("slot", i)`; a parameter `("slot", i, offset, kind)`
    is `slots[i] + offset` (an address, or an integer of 32 or 64 bits). A function's tensor maps are encoded when their
    address or sizes are others than at the call before. The pointers that Triton adds to a kernel's parameters are null.
    Raises `DriverError` for kernels of two devices, or parameters that a kernel does not take; `ValueError`, `TypeError` for what is no launch.
    """

    def __init__(self, launches: Iterable[tuple[Function, int | Slot, Sequence[Parameter]]]) -> None: ...
    def __len__(self) -> int: ...
    def __call__(self, stream: int, /, *slots: int) -> None:
        """Issues all launches on `stream`, in order; a grid of 0 is skipped. The interpreter is free meanwhile.

        Raises `DriverError` naming the kernel, its user's line and the driver's message; what comes after it is not launched.
        """
