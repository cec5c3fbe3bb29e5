"""Tensors over memory, as generated wrappers make them, and who else uses a storage. Checked on torch 2.11 to 2.14."""

from torch import _efficientzerotensor as zero_tensor
from torch._C import _construct_storage_from_data_pointer as storage_at
from torch._C import _storage_Use_Count as storage_users
from torch._C._dynamo.guards import _empty_strided_cpu as empty_strided_cpu  # type: ignore[attr-defined]
from torch._C._dynamo.guards import _empty_strided_cuda as empty_strided_cuda  # type: ignore[attr-defined]
from torch._C._dynamo.guards import _reinterpret_tensor as reinterpret_tensor  # type: ignore[attr-defined]
from torch._C._dynamo.guards import assert_size_stride

__all__ = [
    "assert_size_stride",
    "empty_strided_cpu",
    "empty_strided_cuda",
    "reinterpret_tensor",
    "storage_at",
    "storage_users",
    "zero_tensor",
]
