"""Operators of libraries that are grouped products: loops on the host over the groups, which `expand-grouped-products` has kernels for.

`transformers` (5.17 and later) has an operator of its own for matrices that are not bf16, whose gradients are a formula that waits for the
offsets, or, later, an operator too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from bascule.dialect.analysis.products.looped_products import LoopedProduct
from torch import Tensor

from ..fx.matmul_precision import allows_tf32
from .declared_decompositions import Declared

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class GroupedProducts:
    """`is_made_on`: whether grouped products of tensors on a device become kernels."""

    is_made_on: Callable[[torch.device], bool]

    @property
    def table(self) -> Mapping[str, Declared]:
        """Operator -> its declaration."""
        name = "transformers::grouped_mm_fallback"
        return {
            name: Declared(
                self.of_rows, "(Tensor input, Tensor weight, Tensor offs) -> Tensor", gradients=self.of_arguments
            ),
            f"{name}_backward": Declared(
                self.gradients, "(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)"
            ),
        }

    def of_rows(self, x: Tensor, w: Tensor, offsets: Tensor) -> Any:
        """Rows of each group by its matrix; zeros after the last group."""
        if not self._are_kernels(x, w, offsets) or is_loop(x, w):
            return NotImplemented
        return torch.ops.bascule.grouped_mm(x, w, offsets)

    def of_arguments(self, x: Tensor, w: Tensor, offsets: Tensor, gradient: Tensor) -> Any:
        """The gradients of what the operator takes."""
        found = self.gradients(x, w, offsets, gradient)
        return found if found is NotImplemented else (*found, None)

    def gradients(self, x: Tensor, w: Tensor, offsets: Tensor, gradient: Tensor) -> Any:
        """Those of the rows and of the matrices, which lie in memory as these do."""
        transposed, multiply = w.transpose(1, 2), torch.ops.bascule.grouped_mm
        lies = [each.is_contiguous() for each in (w, transposed)]
        if not self._are_kernels(x, w, offsets, gradient) or not x.is_contiguous() or not any(lies):
            return NotImplemented
        if is_loop(gradient, transposed) or is_loop(x.t(), gradient, w.shape[0]):
            return NotImplemented
        of_rows = multiply(gradient, transposed, offsets)
        if lies[0]:
            return of_rows, multiply(x.t(), gradient, offsets)
        return of_rows, multiply(gradient.t(), x, offsets).transpose(1, 2)

    def _are_kernels(self, x: Tensor, w: Tensor, offsets: Tensor, *others: Tensor) -> bool:
        """Whether there are kernels of products of such tensors."""
        tensors = (x, w, *others)
        if x.dim() != 2 or w.dim() != 3 or offsets.dim() != 1 or offsets.dtype not in (torch.int32, torch.int64):
            return False
        known = all(isinstance(size, int) for tensor in (*tensors, offsets) for size in tensor.shape)
        alike = {(each.dtype, each.device) for each in tensors} == {(x.dtype, x.device)} and offsets.device == x.device
        return known and alike and x.dtype in FLOATS and self.is_made_on(x.device)


def is_loop(x: Tensor, y: Tensor, groups: int = 0) -> bool:
    """Whether a loop on the host is to multiply tensors of static sizes; `groups`: whose sums are in so many groups, where `y` is no stack of
    matrices."""
    (rows, inner), columns, width = x.shape, y.shape[-1], x.dtype.itemsize
    in_sums = y.dim() == 2
    count = groups if in_sums else y.shape[0]
    return bool(LoopedProduct(rows, inner, columns, count, in_sums, width, allows_tf32()).refusal)
