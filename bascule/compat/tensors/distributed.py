"""Tensors that are sharded over ranks. Checked on torch 2.11 to 2.14."""

from torch.distributed.tensor._dtensor_spec import DTensorSpec

__all__ = ["DTensorSpec"]
