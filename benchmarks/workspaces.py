"""Memory that PyTorch's operators on the CPU take while they run, beyond their results: what `dialect/analysis/memory/workspaces.py` tells.

python -m benchmarks.workspaces
"""

from collections.abc import Callable
from typing import Any

import torch

from .measure import print_table
from .memory import peak_bytes

aten = torch.ops.aten
IMAGES = ((16, 32, 32, 3, 1, 1), (32, 32, 32, 3, 2, 1), (3, 32, 32, 7, 2, 3), (64, 64, 16, 1, 1, 0))
MATRICES = ((256, 128, 64), (512, 128, 512), (1024, 512, 128), (64, 256, 1000))


def extra(call: Callable[[], Any]) -> int:
    """Bytes that `call` takes at most beyond the storages of its results, once it has run before."""
    found = call()
    found = found if isinstance(found, tuple | list) else [found]
    made = sum(x.untyped_storage().nbytes() for x in found if isinstance(x, torch.Tensor))
    del found
    return peak_bytes(call) - made


def main() -> None:
    rows = []
    for channels, out, size, window, stride, padding in IMAGES:
        x, weight = torch.randn(8, channels, size, size), torch.randn(out, channels, window, window)
        how = ([stride] * 2, [padding] * 2, [1, 1], False, [0], 1)
        given = torch.randn_like(aten.convolution(x, weight, None, *how))
        name = f"convolution {channels} to {out}, {window} x {window} by {stride}"
        sizes = f"{x.nbytes} {weight.nbytes} {given.nbytes}"
        forward = extra(lambda x=x, w=weight, how=how: aten.convolution(x, w, None, *how))
        backward = extra(
            lambda g=given, x=x, w=weight, how=how: aten.convolution_backward(g, x, w, None, *how, [True, True, False])
        )
        rows += [[name, sizes, str(forward)], [f"{name}, backward", sizes, str(backward)]]
    for count, inner, columns in MATRICES if hasattr(torch.ops.mkldnn, "_linear_pointwise") else ():
        x, weight = torch.randn(count, inner), torch.randn(columns, inner)
        taken = extra(lambda x=x, w=weight: torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], ""))
        rows.append(
            [f"linear {count} x {inner} to {columns}", f"{x.nbytes} {weight.nbytes} {4 * count * columns}", str(taken)]
        )
    for shape, dim in (((2048, 48), 0), ((2048, 48), 1), ((5000,), 0)):
        x = torch.randn(shape)
        taken = extra(lambda x=x, dim=dim: aten.sort.stable(x, stable=False, dim=dim))
        rows.append([f"sort {'x'.join(map(str, shape))} along {dim}", str(x.nbytes), str(taken)])
    print_table(["operator", "bytes of input, weight, result", "beyond results"], rows)


if __name__ == "__main__":
    main()
