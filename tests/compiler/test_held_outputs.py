"""Objects that a graph holds and returns: the mesh of a `DTensor`, where another compiled function has met an equal one."""

import os
import warnings

import torch
from bascule.frontend.fx.trace_context import fake_mode_of
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from bascule.compiler.compile_graph import compile_graph
from bascule.options import Options
from tests.generators.ranks import on_ranks


class Held:
    """Something that is no tensor."""


def test_it_is_returned_as_it_is():
    root, held = torch.nn.Module(), Held()
    root.held = held
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    twice = graph.call_function(torch.ops.aten.mul.Tensor, (x, 2))
    again = graph.get_attr("held")
    graph.output((twice, again, None, x, again))
    gm = torch.fx.GraphModule(root, graph)
    given = torch.arange(5.0)
    with fake_mode_of([]) as mode:
        x.meta["val"] = mode.from_tensor(given)
        twice.meta["val"] = x.meta["val"] * 2
    results = compile_graph(gm, [x.meta["val"]], Options(on_error="raise"))([given])
    assert results[1] is held and results[4] is held and results[2] is None and results[3] is given
    torch.testing.assert_close(results[0], given * 2)


def of_equal_meshes(rank, group):
    """A product of `DTensor`s by functions compiled one after the other, each with a mesh of its own: the meshes of the results."""
    warnings.simplefilter("ignore")
    os.environ["BASCULE_CACHE_DIR"] = ""
    found = []
    for backend in ("aot_eager", "bascule", "bascule"):
        torch._dynamo.reset()
        mesh = DeviceMesh.from_group(group, "cpu")
        rows = distribute_tensor(torch.arange(28.0).view(7, 4), mesh, [Shard(0)])
        weight = distribute_tensor(torch.eye(4), mesh, [Replicate()])
        options = {"on_error": "raise"} if backend == "bascule" else None
        made = torch.compile(lambda x, w: (x @ w).relu() * 2, backend=backend, options=options)(rows, weight)
        assert made.placements == (Shard(0),) and made.device_mesh == mesh
        torch.testing.assert_close(made.full_tensor(), torch.arange(28.0).view(7, 4) * 2)
        found.append(type(made.device_mesh).__name__)
    return found


def test_the_mesh_of_what_is_returned():
    assert on_ranks(2, of_equal_meshes) == [["DeviceMesh"] * 3] * 2
