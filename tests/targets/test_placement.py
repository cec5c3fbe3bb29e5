"""Which device a graph runs on, and what is said where there is none for it. No GPU is needed: the tensors are fake."""

import pytest
import torch
from bascule.runtime.memory import cuda_allocation
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule

from bascule.errors import UnsupportedError
from bascule.targets.placement import CPU, Placement, placement_of

aten = torch.ops.aten
FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)


def graph(devices, build):
    """A graph with an input on each device; `build` makes its outputs, as nodes and the devices of their values."""
    g, mode = Graph(), FakeTensorMode()

    def valued(node, device):
        with mode:
            node.meta["val"] = torch.empty(4, 3, device=device)
        node.meta["stack_trace"] = 'File "model.py", line 7, in forward'
        return node

    inputs = [valued(g.placeholder(f"x{number}"), device) for number, device in enumerate(devices)]
    for node in inputs:
        del node.meta["stack_trace"]  # an input has no line of its own
    g.output(tuple(build(g, valued, *inputs)))
    return GraphModule({}, g)


def added(g, valued, x, y):
    return [valued(g.call_function(aten.add.Tensor, (x, y)), x.meta["val"].device)]


def test_one_gpu():
    assert placement_of(graph([FIRST, FIRST], added)) == Placement(FIRST)
    assert placement_of(graph([SECOND, SECOND], added)) == Placement(SECOND)
    assert placement_of(graph([CPU, CPU], added)) == Placement(CPU)


def test_two_gpus_are_refused():
    def apart(g, valued, x, y):
        return [valued(g.call_function(aten.exp.default, (v,)), v.meta["val"].device) for v in (x, y)]

    with pytest.raises(UnsupportedError, match=r"two GPUs: 'x0' on 'cuda:0' and 'x1' on 'cuda:1'") as caught:
        placement_of(graph([FIRST, SECOND], apart))
    assert caught.value.location == "model.py:7" and "one device" in caught.value.hint


def test_a_device_of_another_kind_is_refused():
    with pytest.raises(UnsupportedError, match=r"'x0' is on device 'meta'"):
        placement_of(graph([torch.device("meta")] * 2, added))


def test_inputs_on_the_cpu_are_moved():
    assert placement_of(graph([FIRST, CPU], added)) == Placement(FIRST, host_inputs=(1,))


def test_no_room_for_an_arena(monkeypatch):
    def no_room(*args):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(cuda_allocation, "empty", no_room)
    told = r"graph7_forward: no room for its arena of 1,048,576 bytes, .* CUDA out of memory\."
    with pytest.raises(torch.OutOfMemoryError, match=told):
        cuda_allocation.take_arena(1 << 20, "graph7_forward")
