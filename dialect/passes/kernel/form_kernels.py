"""The pass `form-kernels`: computes, scans and scatters become kernel functions and calls of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.body_summary import PRODUCERS, Body
from ...errors import UserError
from ...fusion.column_partials import join_partials, write_chunked
from ...fusion.group_records import Group
from ...fusion.kernel_assembly import ALONE, Assembler
from ...fusion.kernel_functions import KernelFunctions
from ...fusion.kernel_groups import Grouping
from ...fusion.members import Member
from ...ir import builders
from ...ir.functions import acts, graph_functions
from ...ir.locations import source_of
from ...ir.loop_ops import ForeachOp, KernelOp
from ...ir.memory_ops import WHOLE, CopyIntoOp
from ...ir.regions import end_of
from ...ir.shapes import shape_of
from ...mlir import ir
from ...remarks.attribute import add_remark, keep_remarks
from ...scheduling.gpu.machine import H200, PARAMETERS
from ...steering.asking import is_steered, may_fuse
from ...steering.hooks import Fusion
from ..base import VALUES, Pass, check_target

TINY, TINY_PARTS = 256, 64  # bytes of a group that is a program of a GPU; so many of them are one launch
GPUS = ("cuda", "interpret")
SMALL = 1 << 20  # bytes below which a kernel's launch is worth saving


@dataclass(frozen=True)
class FormKernels(Pass):
    """Takes the tensor stage; leaves the kernel stage: each compute, scan and scatter is in a kernel function that the graph calls.

    Computes share a kernel where that saves memory traffic:
    - a consumer joins the kernel of what it reads, at the same rows: pointwise over one domain, a reduction with what is computed from
      it over the rows that it reduced (softmax, layer_norm and their backwards are one kernel each);
    - computes that read the same tensor over one domain join without depending on each other (two sums of the same columns);
    - a scatter that lays pieces beside each other (`bascule.whole`, each element once, at no index from data) joins what makes the pieces.
    Values that only the kernel's own members read never reach memory: they are recomputed where they are read, or, if costly and a row of
    them is small, kept as a row (`bascule.compute` in the kernel). Where neither is cheaper than memory, as of a table of cosines that all
    heads read, they stay apart. With all that is recomputed no kernel of several members has more than `max-ops` ops. Equal kernels share one
    function. Why a producer is not in the kernel of its consumer is a remark of the call. Up to `max-parts` small kernels of which nothing in
    the graph reads the results (an optimizer's step) become one launch, a kernel without ranges and a foreach for each.
    Partial sums of columns that `split-reductions` made run beside the rows that read the same tensors, `min-shared` bytes or more of
    them: that kernel's domain is chunks of rows. What is costly is not computed twice for that; a GPU computes an element once for a pointwise
    row and its columns, which sum what is stored. On `target` cuda a loop over many elements does not join a kernel of so few points that of
    `sm-count` multiprocessors many are idle.
    """

    name: ClassVar[str] = "form-kernels"
    takes: ClassVar[str] = VALUES
    max_reads: int = 32
    max_ops: int = 1500
    max_parts: int = 16
    min_shared: int = 1 << 18  # bytes
    target: str = "cpu"
    sm_count: int = H200.sm_count

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        with module.context:
            for graph in graph_functions(module):
                _check_captures(graph)
                _form(self, module, graph)


def _check_captures(graph: ir.Operation) -> None:
    """Raises `UserError` where a body takes of its graph what a kernel is not given: it reads tensors by `tensor.extract`, and has constants and
    symbols."""
    block = graph.regions[0].blocks[0]
    made = [
        result for op in block.operations if op.operation.name != "arith.constant" for result in op.operation.results
    ]
    for value in (*(a for a in block.arguments if not isinstance(a.type, ir.IndexType)), *made):
        for use in value.uses:
            op = use.owner.operation
            if (op.name == "tensor.extract" and use.operand_number == 0) or op.block == block:
                continue
            told = f"'{op.name}' takes a value of the graph: a body reads tensors by tensor.extract, and has constants and symbols"
            raise UserError(told, location=source_of(op.location))


def _form(options: FormKernels, module: ir.Module, graph: ir.Operation) -> None:
    block = graph.regions[0].blocks[0]
    indexing = Indexing(builders.symbols_of(graph), Simplifier())
    busy = options.sm_count if options.target in GPUS else 0  # pieces of work, where that is more than a few
    grouping = Grouping(options.max_reads, options.max_ops, busy)
    originals, effects = [], []
    table = ir.SymbolTable(module.operation)
    for view in list(block.operations):
        op = view.operation
        if op.name in PRODUCERS:
            if _is_written_over(op):
                originals.append(op)
                continue
            if op.name == "bascule.scatter" and WHOLE not in op.attributes:
                copy = _copy_of_init(op)
                if copy is not None:
                    originals.append(copy)
                    grouping.add(Member.of(len(originals), Body(copy), indexing))
            originals.append(op)
            grouping.add(Member.of(len(originals), Body(op), indexing))
        else:
            if acting := acts(op, table):
                effects.append(op)
            grouping.add_other(op, acting)
    join_partials(grouping, indexing, options.min_shared)
    kernels = KernelFunctions(module, graph)
    for launch in _launches(options, grouping.groups):
        # Index values are remembered by identity, and a kernel that equals another is erased: none outlives its launch.
        assembler = Assembler(Indexing(builders.symbols_of(graph), indexing.simplifier))
        _write(launch, kernels, assembler)
    for op in [*reversed(originals), *kernels.scalars.values()]:
        if not any(True for result in op.results for _ in result.uses):
            op.erase()
    _order(block, effects)


def _launches(options: FormKernels, groups: list[Group | None]) -> list[list[Group]]:
    """Groups, one a launch, but for small ones whose results nothing in the graph reads: several of a kind make one launch."""
    launches, small = [], []
    for group in groups:
        if group is None:
            continue
        alone = not group.members[0].fuses or group.beside is not None or group.is_measured
        if options.max_parts > 1 and not alone and _is_last(group) and _bytes(group) <= SMALL:
            small.append(group)
        else:
            launches.append([group])
    small.sort(key=lambda group: (str(group.rows), group.ops))  # equal ones together, so that equal launches share code
    launch: list[Group] = []
    for group in small:
        tiny = options.target in GPUS and all(_bytes(member) <= TINY for member in (*launch[:1], group))
        most = TINY_PARTS if tiny else options.max_parts
        full = len(launch) >= most or sum(map(_buffers, (*launch, group))) > PARAMETERS
        if launch and (full or (is_steered() and not _may_launch(launch, group))):
            launches.append(launch)
            launch = []
        launch.append(group)
    return [*launches, launch] if launch else launches


def _may_launch(launch: list[Group], group: Group) -> bool:
    """Whether the plug-in lets a group be part of a launch of others."""
    producers = tuple(m.body.op for other in launch for m in other.members)
    ops = sum(other.ops for other in (*launch, group))
    return may_fuse(Fusion(FormKernels.name, producers, tuple(m.body.op for m in group.members), 0, ops, True, ""))


def _buffers(group: Group) -> int:
    """At most how many tensors the group reads and writes."""
    return len(group.reads) + len(group.members)


def _is_last(group: Group) -> bool:
    """Whether what leaves the group leaves the graph: then no dependency arises from running it with others."""
    names = {use.owner.operation.name for m in group.members for use in m.result.uses} - {"tensor.extract"}
    return names <= {"func.return", "bascule.copy_into"} and not any(_is_read(m, group) for m in group.members)


def _is_read(member: Member, group: Group) -> bool:
    """Whether a body outside the group reads the member's result."""
    inside = sum(m.operands.get(member.result, 0) for m in group.members)
    return sum(1 for use in member.result.uses if use.owner.operation.name == "tensor.extract") > inside


def _bytes(group: Group) -> int:
    """Bytes that the group's loops run over, its reductions included."""
    return sum(member.body.bytes * member.body.steps for member in group.members)


def _is_written_over(op: ir.Operation) -> bool:
    """Whether an op's only use is to be the init of scatters that write every element."""
    users = [use.owner.operation for result in op.results for use in result.uses]
    return bool(users) and all(user.name == "bascule.scatter" and WHOLE in user.attributes for user in users)


def _copy_of_init(op: ir.Operation) -> ir.Operation | None:
    """Gives a scatter an init of its result's layout; returns the compute that copies, if one was needed."""
    init, result = op.operands[0], op.results[0]
    if init.type == result.type:
        return None
    with ir.InsertionPoint(op), op.location:
        copy = builders.compute(result.type, shape_of(init), builders.element_at(init))
    op.operands[0] = copy
    return copy.owner.operation


def _write(launch: list[Group], kernels: KernelFunctions, assembler: Assembler) -> None:
    """The kernel function of one group, or of several that do not depend on each other, and the call of it."""
    launched = [*launch, *(beside for group in launch if group.beside for beside in group.beside.partials)]
    members = [member for group in launched for member in group.members]
    last = max(members, key=lambda m: m.number).body.op
    function = kernels.begin(ir.Location.fused([m.body.op.location for m in members]))
    if last.name in ALONE and not members[0].fuses:
        keeps = last.name == "bascule.scatter" and WHOLE not in last.attributes
        init = last.operands[0] if keeps else None
        out = function.destination(last.results[0], init)
        with last.location:
            kernel = ALONE[last.name](last, out, function.entry, assembler)
    else:
        destinations = {m.result: function.destination(m.result) for m in members if _escapes(m, members)}
        with function.location:
            rows = launch[0].rows if len(launch) == 1 else []
            if launch[0].beside is not None:
                kernel = write_chunked(launch[0], function.entry, destinations, assembler)
            else:
                kernel, point = assembler.loop(KernelOp, rows, ir.InsertionPoint(function.entry))
                for group in launch:
                    part = point
                    if len(launch) > 1:
                        _, part = assembler.loop(ForeachOp, group.rows, ir.InsertionPoint(end_of(point)))
                    assembler.write(group, part, destinations)
    call = function.finish(kernel, last)
    add_remark(call, *(remark for group in launched for remark in group.remarks))
    keep_remarks(call, [member.body.op for member in members])  # what passes before this one have noted


def _escapes(member: Member, members: Sequence[Member]) -> bool:
    """Whether something other than `members`, those of its kernel, uses the member's result."""
    inside = sum(m.operands.get(member.result, 0) for m in members)
    return sum(1 for _ in member.result.uses) > inside


def _order(block: ir.Block, effects: Sequence[ir.Operation]) -> None:
    """Puts the ops of a block after those that they use, calls with `effects` in their order, all else as it stands; copies into arguments come
    last."""
    ops = [view.operation for view in block.operations]
    ops = [op for op in ops[:-1] if op.name != CopyIntoOp.OPERATION_NAME] + [
        op for op in ops if op.name == CopyIntoOp.OPERATION_NAME
    ]
    position = {result: i for i, op in enumerate(ops) for result in op.results}
    numbers = {op: i for i, op in enumerate(ops)}
    before = {numbers[later]: numbers[effect] for effect, later in pairwise(effects)}
    placed = [False] * len(ops)
    order: list[int] = []
    for start in range(len(ops)):
        todo = [start]
        while todo:
            i = todo[-1]
            needed = [before.get(i), *(position.get(operand) for operand in ops[i].operands)]
            waiting = [p for p in needed if p is not None and not placed[p]]
            if waiting and not placed[i]:
                todo.extend(waiting)
                continue
            todo.pop()
            if not placed[i]:
                placed[i] = True
                order.append(i)
    end = end_of(block)
    for i in order:
        ops[i].move_before(end)
