"""`nansum` over an empty list of dimensions is over all of them, as eager has it.

PyTorch traces it with the sizes of its input, of which a kernel would write each element. Its table is corrected for good, as that of
`unique_fake_dtypes.py` is. Checked on torch 2.11 to 2.14.
"""

from typing import Any

import torch

from bascule.compat.tensors.fake_tensors import FakeTensorMode, op_implementations_dict

NANSUM = torch.ops.aten.nansum.default


def _over_all(mode: Any, operator: Any, x: torch.Tensor, dim: Any = None, keepdim: bool = False, **dtype: Any) -> Any:
    if dim is None or len(dim):
        return NotImplemented
    return operator(x, None, keepdim, **dtype)


def correct_nansum() -> None:
    if NANSUM not in op_implementations_dict:
        op_implementations_dict[NANSUM] = _over_all
        FakeTensorMode.cache_clear()  # Dynamo may have traced one before
