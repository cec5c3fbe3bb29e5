"""Graphs of tensors on a GPU, taken through the whole pipeline where there is none: the tensors are fake. What a GPU's graphs alone have, as
numbers on the CPU beside them and attention's own kernels, meets all checks of the dialect here too."""

import pytest
import torch
from bascule.dialect.contract.module import check_contract
from bascule.dialect.ir import context
from bascule.frontend.importer.graph import import_graph
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from bascule.options import make_options
from bascule.pipelines import pipeline_for
from bascule.targets.placement import placement_of

aten = torch.ops.aten
MACHINE = {"target": "cuda", "sm_count": 132, "capability": 90, "l2_bytes": 60 << 20}
HALF = torch.float16


def flash_attention(q, k, v):
    """Returns integers too, and seeds."""
    result, sums, *_ = aten._scaled_dot_product_flash_attention.default(q, k, v)
    return result * 2, sums


def efficient_attention(q, k, v):
    result, sums, *_ = aten._scaled_dot_product_efficient_attention.default(q, k, v, None, True)
    return F.gelu(result), sums


ON_GPU = {
    "flash attention": (flash_attention, [((2, 4, 64, 32), HALF)] * 3),
    "efficient attention": (efficient_attention, [((2, 4, 64, 32), HALF)] * 3),
    "a product and what reads it": (lambda x, w: F.gelu(x @ w), [((4096, 1024), HALF), ((1024, 4096), HALF)]),
    "a convolution": (lambda x, w: F.conv2d(x, w, padding=1).relu(), [((2, 8, 16, 16), HALF), ((8, 8, 3, 3), HALF)]),
    "indices": (lambda x, i: x.index_select(0, i).cumsum(0), [((64, 8), torch.float32), ((5,), torch.int64)]),
    "sums of rows": (lambda x: torch.softmax(x, -1).var(0), [((512, 2048), torch.float32)]),
}


def run(function, given, **machine):
    graph = make_fx(function)(*given)
    with context() as held:
        module = import_graph(graph, given, context=held).module
        placement_of(graph).annotate(module)
        check_contract(module)
        pipeline_for(make_options(None, None), MACHINE | machine).run(module, verify=True)
        return str(module)


@pytest.mark.parametrize("name", ON_GPU)
def test_a_graph_on_a_gpu(name):
    function, sizes = ON_GPU[name]
    with FakeTensorMode():
        text = run(function, [torch.empty(size, dtype=dtype, device="cuda") for size, dtype in sizes])
    assert 'bascule.device = "cuda:0"' in text


def pooled(x):
    """With the indices as a backward takes them: how far behind the beginning of its window an element is."""
    values, indices = aten.max_pool2d_with_indices.default(x, [3, 3], [2, 2], [1, 1])
    return values, (indices % 255).to(torch.uint8)


def test_windows_have_an_axis_of_their_own_beside_the_lanes():
    """A place's part is computed once for all channels, in indices of 32 bits: no position is larger than there are elements."""
    with FakeTensorMode():
        x = torch.empty(8, 64, 112, 112, dtype=HALF, device="cuda").to(memory_format=torch.channels_last)
        text = run(pooled, [x])
    assert text.count("axes = array<i64: 3, 1>") == 2 and "index_bits = 64" not in text


def test_numbers_on_the_cpu_beside_tensors_on_the_gpu():
    with FakeTensorMode():
        text = run(lambda x, y: (x * y, y + 1), [torch.empty(4, 3, device="cuda"), torch.empty(())])
    assert "bascule.host_inputs = array<i64: 1>" in text
