"""A kernel function made by hand of some computes of a graph, as `form-kernels` makes it."""

from collections.abc import Sequence

from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import PRODUCERS, Body
from bascule.dialect.fusion.group_records import Group
from bascule.dialect.fusion.kernel_assembly import Assembler
from bascule.dialect.fusion.kernel_functions import KernelFunctions
from bascule.dialect.fusion.members import Member
from bascule.dialect.ir import KernelOp
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import graph_functions, kernel_op
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import top_ops


def written(module: ir.Module, rows: int, returned: Sequence[int] = (-1,)) -> list[ir.Operation]:
    """One kernel of all computes of the graph, over the first `rows` of their dims; it stores the results of those numbered `returned`. Gives
    the ops in its region."""
    (graph,) = graph_functions(module)
    indexing = Indexing(symbols_of(graph), Simplifier())
    ops = [op for op in top_ops(graph) if op.name in PRODUCERS]
    members = [Member.of(number, Body(op), indexing) for number, op in enumerate(ops)]
    group = Group(0, list(members[0].sizes[:rows]))
    for member in members:
        member.row_dims = tuple(range(rows))
        group.members.append(member)
        group.note_reads(member)
    function = KernelFunctions(module, graph).begin(ops[-1].location)
    destinations = {members[n].result: function.destination(members[n].result) for n in returned}
    assembler = Assembler(Indexing(symbols_of(graph), indexing.simplifier))
    with function.location:
        kernel, point = assembler.loop(KernelOp, group.rows, ir.InsertionPoint(function.entry))
        assembler.write(group, point, destinations)
    call = function.finish(kernel, ops[-1])
    for op in reversed(ops):
        op.erase()
    assert module.operation.verify()
    made = ir.SymbolTable(module.operation)[call.attributes["callee"].value].operation
    found = kernel_op(made)
    assert found is not None
    return [view.operation for view in found.regions[0].blocks[0].operations]
