"""Copies to the host and back have all bits and the strides of what they copy; on a CPU their memory is none of PyTorch's allocator's."""

import pytest
import torch
from bascule.runtime.modules import host_copies

from benchmarks.memory import peak_bytes

ops = torch.ops.bascule_host
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(3, 5),
        torch.randn(5, 3, dtype=torch.float64).t(),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.tensor([float("nan"), float("inf"), -0.0]),
        torch.randint(0, 255, (7,), dtype=torch.uint8),
        torch.randn(4, 4, dtype=torch.bfloat16),
        torch.tensor(3.5),
        torch.empty(0, 4),
        torch.tensor([True, False]),
    ],
)
def test_there_and_back(x):
    host = ops.wait_tensor(ops.to_host(x))
    back = ops.wait_tensor(ops.to_device(host, device=CPU))
    for copy in (host, back):
        assert copy.stride() == x.stride() and copy.dtype == x.dtype
        assert torch.equal(copy.nan_to_num(), x.nan_to_num()) and torch.equal(copy.isnan(), x.isnan())
        assert not x.numel() or copy.data_ptr() != x.data_ptr()


def test_a_view_of_more_is_copied_densely():
    x = torch.randn(6, 8)[::2, 1::3]
    host = ops.wait_tensor(ops.to_host(x))
    assert torch.equal(host, x) and host.is_contiguous()


def test_its_memory_is_none_of_the_allocators():
    x, kept = torch.randn(1 << 16), []
    assert peak_bytes(lambda: kept.append(ops.to_host(x))) < x.nbytes
    assert peak_bytes(lambda: kept.append(ops.to_device(kept[0], device=CPU))) >= x.nbytes


def test_fake_tensors_tell_where_they_are():
    host_copies.register_fake()
    with torch._subclasses.fake_tensor.FakeTensorMode():
        x = torch.empty(3, 5, device="meta")
        assert ops.wait_tensor(ops.to_host(x)).device == CPU
