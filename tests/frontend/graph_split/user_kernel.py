"""A graph with a user's Triton kernel, which Triton's interpreter runs on the CPU: `TRITON_INTERPRET=1 python user_kernel.py`."""

import operator

import torch
import triton
import triton.language as tl
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_functional
from torch._subclasses import FakeTensorMode

from bascule.compiler.compile_graph import compile_graph
from bascule.options import Options

aten = torch.ops.aten


@triton.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


def graph_around_it(size: int) -> torch.fx.GraphModule:
    """exp(add_one(x * 2)), as AOTAutograd writes a call of a Triton kernel. Dynamo does not trace the interpreter's kernels."""
    graph, fake = torch.fx.Graph(), FakeTensorMode().from_tensor(torch.empty(size))

    def call(target, *args, value=fake, **kwargs):
        node = graph.call_function(target, args, kwargs)
        node.meta["val"] = value
        return node

    x = graph.placeholder("x")
    x.meta["val"] = fake
    doubled, out = call(aten.mul.Tensor, x, 2), call(aten.new_zeros.default, x, [size])
    kernel = call(
        triton_kernel_wrapper_functional,
        value={"out": fake},
        kernel_idx=kernel_side_table.add_kernel(add_one),
        constant_args_idx=kernel_side_table.add_constant_args({"n": size, "BLOCK": 8}),
        grid=[(2, 1, 1)],
        tma_descriptor_metadata={},
        kwargs={"x": doubled, "out": out},
        tensors_to_clone=["out"],
    )
    graph.output((call(aten.exp.default, call(operator.getitem, kernel, "out")),))
    return torch.fx.GraphModule({}, graph)


if __name__ == "__main__":
    gm, x = graph_around_it(10), torch.randn(10)
    records = []
    run = compile_graph(gm, [None], Options(on_error="raise"), on_record=records.append)
    torch.testing.assert_close(run([x])[0], (x * 2 + 1).exp())
    assert [record.compiled for record in records] == [False, True, True]
    print(*records[0].cuts)
