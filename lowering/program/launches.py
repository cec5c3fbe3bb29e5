"""Launches of kernels in a generated module: C functions called one by one, or runs of them issued by one call of a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Protocol

from bascule.dialect.analysis.memory.buffers import substitute
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.ir.shapes import constant
from bascule.dialect.mlir import ir

from .alignment import ALIGNMENT
from .expressions import python_of
from .module_writer import ModuleWriter

WIDTH = 110  # characters of a wrapped line
LARGE = 1 << 20  # bytes for whose sake a run ends early


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched: `grid` gives the number of programs from the symbols, which are passed with `index_bits` bits.

    `narrow`: of a kernel with variants, expressions of the symbols that decide between them, see `bascule.runtime.kernels.launch_plans`.
    """

    grid: ir.AffineMap
    index_bits: int
    narrow: ir.AffineMap | None = None


@dataclass(frozen=True)
class Plans:
    """For `to_python`: kernels are launched by plans on `device`, "cuda:0" or "cpu". `launches`: kernel -> how; `graph`: its name in errors."""

    device: str
    launches: Mapping[str, Launch]
    graph: str

    @property
    def on_host(self) -> bool:
        """Whether the plans run on the CPU: the kernels are interpreted."""
        return self.device == "cpu"


class Launcher(Protocol):
    """Writes the launches of one program."""

    def imports(self) -> list[str]:
        """The names of `bascule.runtime.module_api` that the launches need, "name" or "name as other"."""

    def bind(self, function: ir.Operation, name: str) -> None: ...
    def begin(self) -> None: ...
    def launch(self, op: ir.Operation) -> None: ...
    def flush(self) -> None: ...
    def delete(self, names: Sequence[str], size: int | None) -> bool: ...
    def make_room(self, size: int | None) -> None: ...
    def end(self) -> None: ...


def arguments_of(writer: ModuleWriter, op: ir.Operation) -> list[ir.AffineExpr]:
    """The values that a call passes for the kernel's symbols."""
    values = [v for v in op.operands if isinstance(v.type, ir.IndexType)]
    return [writer.places.sizes.expression(v) for v in values]


@dataclass
class Calls:
    """Each kernel is a function that takes symbols, addresses and the number of threads."""

    writer: ModuleWriter

    def imports(self) -> list[str]:
        return ["empty", "empty_kept", "give_arena", "laid_out", "take_arena", "thread_count", "view"]

    def bind(self, function: ir.Operation, name: str) -> None:
        bound = self.writer.names[name] = self.writer.source.unique(name)
        arguments = len(function.regions[0].blocks[0].arguments) + 1
        self.writer.source.line(f'{bound} = kernel("{name}", {arguments})')

    def begin(self) -> None:
        self.writer.source.line("    threads = thread_count()")

    def launch(self, op: ir.Operation) -> None:
        writer = self.writer
        writer.comment(op)
        texts = [python_of(e, writer.symbols) for e in arguments_of(writer, op)]
        texts += [writer.places.pointer(v) for v in op.operands if isinstance(v.type, ir.MemRefType)]
        writer.source.line(f"    {writer.names[op.attributes['callee'].value]}({', '.join([*texts, 'threads'])})")

    def flush(self) -> None:
        pass

    def delete(self, names: Sequence[str], size: int | None) -> bool:
        return False

    def make_room(self, size: int | None) -> None:
        pass

    def end(self) -> None:
        pass


@dataclass
class Runs:
    """Launches with nothing but allocations between them are one run, if no large tensor dies between them.

    Its slots are addresses and numbers, computed where it is called; the plan, written after `call`, says what each kernel takes from them.
    """

    writer: ModuleWriter
    plans: Plans
    pending: list[str] = field(default_factory=list)  # launches, as entries of the plan
    comments: list[str] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)  # text -> number
    freed: list[str] = field(default_factory=list)  # to be deleted after the run
    waiting: int = 0  # the bytes of these ...
    asked: int = 0  # ... and what has been asked for since
    made: list[tuple[str, list[str]]] = field(default_factory=list)  # name of a run -> its launches
    where: list[str | None] = field(default_factory=list)
    reach: list[str] = field(default_factory=list)  # what variants of the pending are chosen by: their reach ...
    sizes: list[str] = field(default_factory=list)  # ... and their symbols
    mark: int = 0  # the line before which the addresses of inputs are taken

    def imports(self) -> list[str]:
        if self.plans.on_host:
            own = ["empty_unwritten as empty", "give_arena", "take_arena_unwritten as take_arena"]
        else:
            own = ["current_stream", "empty_cuda as empty", "kept_layouts", "take_arena_cuda as take_arena"]
        return [*own, "laid_out", "realigned", "view"]

    def bind(self, function: ir.Operation, name: str) -> None:
        pass  # plans name kernels

    def begin(self) -> None:
        source, places = self.writer.source, self.writer.places
        if not self.plans.on_host:
            for name in self.writer.signature.host_inputs:
                source.line(f"    {name} = {name}.to(DEVICE)")
        self.mark = len(source.lines)
        places.hoisted = {}
        self.writer.commented = None

    def launch(self, op: ir.Operation) -> None:
        writer = self.writer
        name = op.attributes["callee"].value
        symbols = arguments_of(writer, op)
        how = self.plans.launches[name]
        grid = substitute(how.grid.results[0], [], symbols)
        programs = constant(grid)
        if programs == 0:
            return
        parts = [
            f'"{name}"',
            str(programs) if programs is not None else f"slot({self._slot(writer.places.text(grid))})",
        ]
        kind = f"i{how.index_bits}" if how.narrow is None else "size"
        parts += [f"{kind}({self._slot(writer.places.text(e))})" for e in symbols]
        if how.narrow is not None:
            reach = [substitute(e, [], symbols) for e in how.narrow.results]
            self.reach += [text for e in reach if (text := writer.places.text(e)) not in self.reach]
            self.sizes += [text for e in symbols if (text := writer.places.text(e)) not in self.sizes]
        for value in op.operands:
            if isinstance(value.type, ir.MemRefType):
                parts.append(self._pointer(value))
        self.pending.append(f"({', '.join(parts)})")
        operators, where = ", ".join(dict.fromkeys(operators_of(op.location))), source_of(op.location)
        self.where.append(where)
        self.comments.append("  ".join(filter(None, [f"{name}: {operators}" if operators else name, where])))

    def _pointer(self, value: ir.Value) -> str:
        places = self.writer.places
        place = places.known[value]
        address, moved = places.address(place.base), constant(place.offset)
        if moved is None:
            return f"ptr({self._slot(f'{address} + {places.offset(place.offset)}')})"
        slot = self._slot(address)
        return f"ptr({slot}, {moved})" if moved else f"ptr({slot})"

    def _slot(self, text: str) -> int:
        return self.slots.setdefault(text, len(self.slots))

    def flush(self) -> None:
        """Writes the call of the run that is pending, then deletes what it used last."""
        source = self.writer.source
        if self.pending:
            name = self.writer.source.unique(f"run{len(self.made)}")
            for comment in self.comments:
                source.line(f"    # {comment}")
            head = f"    {name}("
            text = ", ".join(["stream", *self.slots, *self._choice()])
            where = self.where[0] if len(set(self.where)) == 1 else None
            if len(head) + len(text) <= WIDTH:
                source.line(f"{head}{text})", where)
            else:
                source.line(head)
                for part in wrap(text, WIDTH - 8, break_long_words=False):
                    source.line(f"        {part}")
                source.line("    )", where)
            self.made.append((name, self.pending))
            self.writer.commented = None
        self.pending, self.comments, self.slots, self.where, self.reach, self.sizes = [], [], {}, [], [], []
        if self.freed:
            source.delete(self.freed)
            self.freed, self.waiting, self.asked = [], 0, 0

    def _choice(self) -> list[str]:
        """The arguments of a run that choose between variants."""
        if not self.sizes:
            return []
        reach = self.reach[0] if len(self.reach) == 1 else f"max({', '.join(self.reach)})"
        return [f"reach={reach}", f"sizes={' | '.join(self.sizes)}"]

    def delete(self, names: Sequence[str], size: int | None) -> bool:
        """Whether the names, of memory of `size` bytes if that is known, are deleted later: kernels that are not launched yet use it."""
        if self.pending:
            self.freed += names
            self.waiting += LARGE if size is None else size
        return bool(self.pending)

    def make_room(self, size: int | None) -> None:
        """Before memory of `size` bytes, if that is known, is asked for: ends the run that is pending if much waits for it to be freed, and
        much has been asked for meanwhile, which may take that."""
        if self.pending and self.waiting:
            self.asked += LARGE if size is None else size
            if min(self.waiting, self.asked) >= LARGE:
                self.flush()

    def end(self) -> None:
        """Writes what precedes the body, and the plans."""
        writer = self.writer
        used, names = list(writer.places.hoisted or ()), writer.signature.names
        lines = [f"    {name}_p = {name}.data_ptr()" for name in used]
        checked = [name for name in used if name in names]
        if checked:
            lines += _wrapped("    if (", " | ".join(f"{name}_p" for name in checked), f") & {ALIGNMENT - 1}:")
            lines += _wrapped("        return realigned(call, [", ", ".join(names), "],")
            positions = ", ".join(str(names.index(name)) for name in checked)
            written = ", ".join(str(names.index(name)) for name in checked if name in writer.written)
            lines += _wrapped("            checked=[", positions, "],")
            lines += _wrapped("            written=[", written, "])")
        if self.made or writer.places.kept is not None:
            index = self.plans.device.partition(":")[2]
            lines.append("    stream = 0" if self.plans.on_host else f"    stream = current_stream({index})")
        writer.source.insert(self.mark, lines)
        line = writer.source.line
        if self.made:
            line()
            line()
            line(
                "# What each run launches: kernel, number of programs, arguments. ptr(k, n): n bytes from the address in slot k;"
            )
            line("# i32(k), i64(k), size(k), slot(k): the number in slot k.")
        for name, launches in self.made:
            line(f"{name} = plan(")
            for launch in launches:
                line(f"    {launch},")
            line(")")


def _wrapped(head: str, text: str, tail: str) -> list[str]:
    if len(head) + len(text) + len(tail) <= WIDTH:
        return [f"{head}{text}{tail}"]
    indent = " " * (len(head) - len(head.lstrip()) + 8)
    middle = [f"{indent}{part}" for part in wrap(text, WIDTH - len(indent), break_long_words=False)]
    return [head, *middle, f"{indent[:-4]}{tail}"]
