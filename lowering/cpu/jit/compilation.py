"""All kernels of a program to machine code, on several threads at once."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import TypeAlias

from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir

from ...refusals import Refuse, reraise
from ...threads import processors, start_or_do
from ..values.target import Target, host
from .fatal_errors import LlvmError
from .machine_code import MachineCode
from .modules import lower_kernels

# Operations of the kernel stage that take about 60 ms to compile: worth what a module costs of its own, 10 ms.
LEAST_OPERATIONS = 80
MOST_PARTS = 8
# LLVM has no instructions for some code of registers of 512 bits: those of 256 bits, interleaved with zeros, are extended, and where half of the
# result is of no use that becomes an operation that it cannot select.
NARROWER = Target(256, most=True)
Part: TypeAlias = tuple[MachineCode, dict[str, int]]  # with the addresses of its kernels


@dataclass(frozen=True)
class CompiledKernels:
    """`addresses`: kernel name -> address of `void name(int64_t symbols.., void *buffers.., int64_t threads)`.

    The code lives as long as this object.
    """

    addresses: dict[str, int]
    parts: list[MachineCode] = field(repr=False)

    def object_code(self) -> bytes:
        """The code as object files, one after another, for `bascule.runtime.kernels.elf_loader`; no bytes if there is no kernel."""
        return b"".join(part.object_file() for part in self.parts)


@dataclass(frozen=True)
class Compiling:
    """Kernels at which other threads are at work. `otherwise` makes of the parts, where one fails, what is there without the kernel at fault."""

    parts: list["Future[Part]"] = field(repr=False)
    otherwise: Callable[[], CompiledKernels]
    sizes: Sequence[int] = ()  # kernels of each part

    def done(self) -> tuple[int, int]:
        """How many kernels are compiled, and of how many."""
        return sum(size for part, size in zip(self.parts, self.sizes) if part.done()), sum(self.sizes)

    def result(self) -> CompiledKernels:
        """Waits. Raises `CompilerError` for a kernel that does not compile, if it is not left out."""
        try:
            return _joined(self.parts)
        except Exception as error:  # of some kernel: compiled one by one, that one is told of
            pass_on(error)
        return self.otherwise()


def compile_kernels(module: ir.Module, *, vector_bits: int | None = None, refuse: Refuse = reraise) -> CompiledKernels:
    """Compiles every kernel function of `module` (program stage), as the schedules of the kernels say.

    `vector_bits`: instructions for vectors of 512, 256 or 128 bits, or the machine's. `refuse` is told of a kernel that does not compile;
    where it returns, the kernel is left out. Raises `UserError` for a schedule that does not fit.
    """
    started = start_compiling(module, vector_bits=vector_bits, refuse=refuse)
    return started.result() if isinstance(started, Compiling) else started


def start_compiling(
    module: ir.Module, *, vector_bits: int | None = None, refuse: Refuse = reraise
) -> Compiling | CompiledKernels:
    """`compile_kernels`, which is over when LLVM has its work: `Compiling.result` waits for it. Where a kernel was refused before, or there
    is none, the result is there at once."""
    target = Target(vector_bits) if vector_bits else host()
    sizes = _sizes(module)
    groups = _balanced(sizes, _parts(sum(sizes.values())))
    parts: list[Future[Part]] = []
    try:
        _start(module, target, groups, parts)
    except Exception as error:  # as in `Compiling.result`, but before LLVM has it
        pass_on(error)
        return _each_tried(module, target, groups, parts, refuse)
    if not parts:
        return CompiledKernels({}, [])
    again = partial(_each_tried, module, target, groups, parts, refuse)
    return Compiling(parts, again, list(map(len, groups)))


def _each_tried(
    module: ir.Module,
    target: Target,
    groups: Sequence[Collection[str]],
    parts: Sequence["Future[Part]"],
    refuse: Refuse,
) -> CompiledKernels:
    """The parts of `groups`, of those that were begun, that compiled, and the kernels of the others that compile alone; `refuse` is told of
    those that do not."""
    good = [part for part in parts if part.exception() is None]
    left = [
        name
        for number, group in enumerate(groups)
        for name in group
        if number >= len(parts) or parts[number].exception()
    ]
    for name in left:
        try:
            good.append(_alone(module, target, name))
        except Exception as error:
            pass_on(error)
            refuse(name, error)
    return _joined(good)


def _alone(module: ir.Module, target: Target, name: str) -> "Future[Part]":
    """One kernel, compiled; where LLVM has no instructions for it, in registers of half the width. Raises as compiling it did."""
    parts, narrow = list["Future[Part]"](), list["Future[Part]"]()
    _start(module, target, [[name]], parts)
    if isinstance(parts[0].exception(), LlvmError) and target.vector_bits > NARROWER.vector_bits:
        _start(module, NARROWER, [[name]], narrow)
        if narrow[0].exception() is None:
            return narrow[0]
    parts[0].result()
    return parts[0]


def _sizes(module: ir.Module) -> dict[str, int]:
    """Kernel -> its number of operations."""
    sizes = {}
    with module.context:
        for function in functions(module):
            if kernel_op(function) is not None:
                count = 0

                def add(_: ir.Operation) -> ir.WalkResult:
                    nonlocal count
                    count += 1
                    return ir.WalkResult.ADVANCE

                function.walk(add)
                sizes[function.attributes["sym_name"].value] = count
    return sizes


def _parts(operations: int) -> int:
    """How many modules are compiled at once."""
    return max(1, min(processors(), MOST_PARTS, operations // LEAST_OPERATIONS))


def _balanced(sizes: dict[str, int], parts: int) -> list[list[str]]:
    """The kernels in `parts` of about equal size: the largest first, each to what is smallest so far."""
    groups, totals = [list[str]() for _ in range(parts)], [0] * parts
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        smallest = totals.index(min(totals))
        groups[smallest].append(name)
        totals[smallest] += sizes[name]
    return [group for group in groups if group]


def _start(module: ir.Module, target: Target, groups: Sequence[Collection[str]], running: list["Future[Part]"]) -> None:
    """Each group in a module of its own, on a thread of its own, added to `running`. Python lowers the next while the last is compiled."""
    try:
        for group in groups:
            lowered, names, called = lower_kernels(module, target, group)
            bytecode = BytesIO()
            lowered.operation.write_bytecode(bytecode)
            running.append(start_or_do(partial(_part, bytecode.getvalue(), names, called)))
    except BaseException:
        for part in running:
            part.exception()  # waits
        raise


def _joined(running: Sequence["Future[Part]"]) -> CompiledKernels:
    addresses, parts = dict[str, int](), list[MachineCode]()
    for part in running:
        part.exception()  # waits for all, whatever fails
    for part in running:
        code, found = part.result()
        parts.append(code)
        addresses |= found
    return CompiledKernels(addresses, parts)


def _part(bytecode: bytes, names: Sequence[str], called: Sequence[str]) -> Part:
    code = MachineCode.of(bytecode, called)
    return code, {name: code.address(name) for name in names}
