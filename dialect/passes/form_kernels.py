"""The pass `form-kernels`: computes, scans and scatters become kernel functions and calls of them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from ..analysis.bodies import PRODUCERS, summarize
from ..analysis.indexing import Indexing
from ..analysis.simplification import Simplifier
from ..fusion.assembly import ALONE, Assembler
from ..fusion.groups import Group, Grouping
from ..fusion.kernel_functions import REMARKS, KernelFunctions
from ..fusion.members import Member
from ..ir import builders
from ..ir.functions import graph_functions
from ..ir.shapes import shape_of
from ..ir.structure import KernelOp
from ..mlir import ir
from .base import Pass


@dataclass(frozen=True)
class FormKernels(Pass):
    """Takes the tensor stage; leaves the kernel stage: each compute, scan and scatter is in a kernel function that the graph calls.

    Computes share a kernel where that saves memory traffic:
    - a consumer joins the kernel of what it reads, at the same rows: pointwise over one domain, a reduction with what is computed from
      it over the rows that it reduced (softmax, layer_norm and their backwards are one kernel each);
    - computes that read the same tensor over one domain join without depending on each other (two sums of the same columns).
    Values that only the kernel's own members read never reach memory: they are recomputed where they are read, or, if costly and a
    row of them is small, kept as a row (`bascule.compute` in the kernel). Equal kernels share one function. Why a producer is not in the
    kernel of its consumer is noted on the call, as `bascule.remarks`.
    """

    name: ClassVar[str] = "form-kernels"
    max_reads: int = 32
    max_ops: int = 1500

    def run(self, module: ir.Module) -> None:
        with module.context:
            for graph in graph_functions(module):
                _form(self, module, graph)


def _form(options: FormKernels, module: ir.Module, graph: ir.Operation) -> None:
    block = graph.regions[0].blocks[0]
    indexing = Indexing(builders.symbols_of(graph), Simplifier())
    grouping = Grouping(options.max_reads, options.max_ops)
    originals = []
    for view in list(block.operations):
        op = view.operation
        if op.name in PRODUCERS:
            if op.name == "bascule.scatter":
                copy = _copy_of_init(op)
                if copy is not None:
                    originals.append(copy)
                    grouping.add(Member.of(len(originals), summarize(copy), indexing))
            originals.append(op)
            grouping.add(Member.of(len(originals), summarize(op), indexing))
        else:
            grouping.add_other(op)
    kernels, assembler = KernelFunctions(module, graph), Assembler(indexing)
    for group in grouping.groups:
        if group is not None:
            _write(group, kernels, assembler)
    for op in reversed(originals):
        op.erase()
    _order(block)


def _copy_of_init(op: ir.Operation) -> ir.Operation | None:
    """Gives a scatter an init of its result's layout; returns the compute that copies, if one was needed."""
    init, result = op.operands[0], op.results[0]
    if init.type == result.type:
        return None
    with ir.InsertionPoint(op), op.location:
        copy = builders.compute(result.type, shape_of(init), builders.element_at(init))
    op.operands[0] = copy
    return copy.owner.operation


def _write(group: Group, kernels: KernelFunctions, assembler: Assembler) -> None:
    """The kernel function of a group and the call of it."""
    last = group.members[-1].body.op
    escaping = [m for m in group.members if _escapes(m, group)]
    function = kernels.begin(ir.Location.fused([m.body.op.location for m in group.members]))
    if last.name in ALONE:
        init = last.operands[0] if last.name == "bascule.scatter" else None
        out = function.destination(last.results[0], init)
        with last.location:
            kernel = ALONE[last.name](last, out, function.entry, assembler)
    else:
        destinations = {m.result: function.destination(m.result) for m in escaping}
        with function.location:
            kernel, point = assembler.loop(KernelOp, group.rows, ir.InsertionPoint(function.entry))
            assembler.write(group, point, destinations)
    call = function.finish(kernel, last)
    if group.remarks:
        remarks = dict.fromkeys(str(remark) for remark in group.remarks)
        call.attributes[REMARKS] = ir.ArrayAttr.get([ir.StringAttr.get(remark) for remark in remarks])


def _escapes(member: Member, group: Group) -> bool:
    """Whether something outside the group uses the member's result."""
    inside = sum(m.operands.get(member.result, 0) for m in group.members)
    return sum(1 for _ in member.result.uses) > inside


def _order(block: ir.Block) -> None:
    """Puts the ops of a block after those that they use, and otherwise as they stand."""
    ops = [view.operation for view in block.operations]
    position = {result: i for i, op in enumerate(ops) for result in op.results}
    placed = [False] * len(ops)
    order: list[int] = []
    for start in range(len(ops)):
        todo = [start]
        while todo:
            i = todo[-1]
            waiting = [p for p in (position.get(o) for o in ops[i].operands) if p is not None and not placed[p]]
            if waiting and not placed[i]:
                todo.extend(waiting)
                continue
            todo.pop()
            if not placed[i]:
                placed[i] = True
                order.append(i)
    for last, i in pairwise(order):
        if i != last + 1:
            ops[i].move_after(ops[last])
