"""Selection of the target that kernels are compiled for: the CPU, a GPU through Triton, or Triton's IR interpreted on the CPU."""

from ..errors import UnsupportedError
from .base import Target
from .placement import Placement


def target_for(name: str, placement: Placement) -> Target:
    """The target that the option `target` chooses for a graph. Raises `UnsupportedError` for one that cannot take its tensors."""
    kind = placement.device.type
    if name == "auto":
        name = kind
    if (name == "cuda") != (kind == "cuda"):
        raise UnsupportedError(
            f"the graph's tensors are on device '{placement.device}'",
            hint=f"the target '{name}' takes tensors on '{'cuda' if name == 'cuda' else 'cpu'}' only",
        )
    if name == "cuda":
        from .cuda import Cuda

        return Cuda(placement.device.index)
    if name == "cpu":
        from .cpu import Cpu

        return Cpu()
    from .interpret import Interpret

    return Interpret()
