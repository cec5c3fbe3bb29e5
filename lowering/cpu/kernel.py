"""A kernel as functions: what runs a range of its tiles, how many tiles there are, and the entry that shares them among threads.

A tile is one point of the domain's outer groups and, where lanes run along a group of the domain, one block of that group.
The entry packs its arguments into an array of 64-bit words, so that every thread starts from one pointer.
"""

from dataclasses import dataclass

from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import kernel_op
from bascule.dialect.mlir import ir

from .body import LOOPS, decode, layout_map
from .builder import Builder, Index
from .emitter import Emitter
from .transcendental import Functions
from .indexing import Indexing
from .loops import clear, group_size, kinds, serial_loop, vector_loop
from .memory import Buffer, stored_type
from .plan import Plan, Planner
from .target import Target
from bascule.dialect.ir.types import scalar_type

BLOCK = 8192  # points of a vector group in a tile, where nothing else asks for another number
GRAIN = 8192  # vector ops that pay for one more thread

SKELETON = """
func.func private @{name}__tiles({symbol_types}) -> (index, index) attributes {{llvm.linkage = #llvm.linkage<internal>}}
func.func private @{name}__part(!llvm.ptr, index, index) attributes {{passthrough = ["noinline"], llvm.linkage = #llvm.linkage<internal>}}
func.func private @{name}__thread(%data: !llvm.ptr) attributes {{llvm.linkage = #llvm.linkage<internal>}} {{
  %at = llvm.getelementptr %data[{words}] : (!llvm.ptr) -> !llvm.ptr, i64
  %word = llvm.load %at : !llvm.ptr -> i64
  %tiles = arith.index_cast %word : i64 to index
  %i = func.call @omp_get_thread_num() : () -> i32
  %n = func.call @omp_get_num_threads() : () -> i32
  %one = arith.constant 1 : i32
  %j = arith.addi %i, %one : i32
  %first = arith.index_cast %i : i32 to index
  %next = arith.index_cast %j : i32 to index
  %all = arith.index_cast %n : i32 to index
  %a = arith.muli %tiles, %first : index
  %b = arith.muli %tiles, %next : index
  %lower = arith.divui %a, %all : index
  %upper = arith.divui %b, %all : index
  func.call @{name}__part(%data, %lower, %upper) : (!llvm.ptr, index, index) -> ()
  return
}}
func.func @_mlir_{name}({parameters}) {{
  %count = llvm.mlir.constant({words} + 1 : i64) : i64
  %data = llvm.alloca %count x i64 : (i64) -> !llvm.ptr
{stores}
{symbols}
  %tiles, %most = func.call @{name}__tiles({symbol_names}) : ({symbol_types}) -> (index, index)
  %word = arith.index_cast %tiles : index to i64
  %at = llvm.getelementptr %data[{words}] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %word, %at : i64, !llvm.ptr
  %wanted = arith.index_cast %threads : i64 to index
  %n = arith.minsi %wanted, %most : index
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %several = arith.cmpi sgt, %n, %one : index
  scf.if %several {{
    %f = func.constant @{name}__thread : (!llvm.ptr) -> ()
    %g = builtin.unrealized_conversion_cast %f : (!llvm.ptr) -> () to !llvm.ptr
    %count32 = arith.index_cast %n : index to i32
    %flags = arith.constant 0 : i32
    func.call @GOMP_parallel(%g, %data, %count32, %flags) : (!llvm.ptr, !llvm.ptr, i32, i32) -> ()
  }} else {{
    func.call @{name}__part(%data, %zero, %tiles) : (!llvm.ptr, index, index) -> ()
  }}
  return
}}
"""
THREADS = """
func.func private @GOMP_parallel(!llvm.ptr, !llvm.ptr, i32, i32)
func.func private @omp_get_thread_num() -> i32
func.func private @omp_get_num_threads() -> i32
"""


@dataclass
class KernelFunction:
    """A kernel function of the program stage, ready to be emitted."""

    name: str
    function: ir.Operation
    target: Target

    def __post_init__(self) -> None:
        self.kernel = kernel_op(self.function)
        self.arguments = list(self.function.regions[0].blocks[0].arguments)
        self.symbols = len(symbols_of(self.function))
        self.body = decode(self.kernel, self.arguments)
        planner = Planner(self.body, self.target)
        self.plan: Plan = planner.plan(self.kernel)
        self.cost = planner.cost
        loop = self.plan.kernel
        self.outer = [g for g in range(len(loop.groups)) if g != loop.vector and g not in self.plan.serial]
        self.inner_loops = any(node.name in LOOPS for node in self.body.block.nodes)
        self.block = loop.width if self.inner_loops or self.plan.serial else -(-BLOCK // loop.width) * loop.width

    def skeleton(self) -> str:
        """The entry and the thread's function, with declarations of the functions that they call."""
        words = len(self.arguments)
        names = [f"%s{i}" if i < self.symbols else f"%b{i - self.symbols}" for i in range(words)]
        types = ["i64" if i < self.symbols else "!llvm.ptr" for i in range(words)]
        stores = [
            f"  %at{i} = llvm.getelementptr %data[{i}] : (!llvm.ptr) -> !llvm.ptr, i64\n"
            f"  llvm.store {name}, %at{i} : {type_}, !llvm.ptr"
            for i, (name, type_) in enumerate(zip(names, types))
        ]
        symbols = [f"  %i{i} = arith.index_cast %s{i} : i64 to index" for i in range(self.symbols)]
        return SKELETON.format(
            name=self.name,
            words=words,
            parameters=", ".join([*(f"{n}: {t}" for n, t in zip(names, types)), "%threads: i64"]),
            stores="\n".join(stores),
            symbols="\n".join(symbols),
            symbol_names=", ".join(f"%i{i}" for i in range(self.symbols)),
            symbol_types=", ".join(["index"] * self.symbols),
        ).replace(f"constant({words} + 1 ", f"constant({words + 1} ")

    def emit_tiles(self, function: ir.Operation) -> None:
        """The number of tiles, and of threads that they are worth."""
        block = function.regions[0].blocks.append(*function.attributes["function_type"].value.inputs)
        b = Builder(block, self.kernel.location)
        ix = Indexing(b)
        symbols = [Index(v, multiple=1) for v in block.arguments]
        points, tiles = Index(offset=1), Index(offset=1)
        loop = self.plan.kernel
        for g, group in enumerate(loop.groups):
            size = Index(offset=1)
            for i in group:
                size = ix.multiply(size, ix.evaluate(loop.sizes[i], (), symbols))
            points = ix.multiply(points, size)
            if g in self.outer:
                tiles = ix.multiply(tiles, size)
            elif g == loop.vector:
                blocks = ix.floordiv(ix.add(size, Index(offset=self.block - 1)), Index(offset=self.block))
                tiles = ix.multiply(tiles, blocks)
            elif size.constant == 0:
                tiles = Index()
        per_thread = max(1, int(GRAIN / max(self.cost, 1e-3)))
        most = ix.floordiv(points, Index(offset=per_thread))
        least = b.value("arith.minsi", b.index, [ix.scalar(most), ix.scalar(tiles)])
        b.op("func.return", [], [ix.scalar(tiles), least])

    def emit_part(self, function: ir.Operation, functions: Functions) -> None:
        """Runs tiles lower .. upper."""
        block = function.regions[0].blocks.append(*function.attributes["function_type"].value.inputs)
        data, lower, upper = block.arguments
        b = Builder(block, self.kernel.location)
        e = Emitter(b, self.body, self.plan, self.target, functions)
        e.kinds = kinds(lambda s, x: functions.build(s, "math.exp", [x]))
        e.allocated = []
        self._unpack(e, data)

        def tile(iv: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            self._tile(e, Index(iv, level=b.level, multiple=1))
            return carried

        b.loop(lower, upper, b.constant(b.index, 1), [], tile)
        for memref in e.allocated:
            b.op("memref.dealloc", [], [memref])
        b.op("func.return")

    def _unpack(self, e: Emitter, data: ir.Value) -> None:
        b = e.b
        pointer = data.type
        for i, argument in enumerate(self.arguments):
            number = self.body.numbers[argument]
            at = b.value("llvm.getelementptr", pointer, [data], {
                "rawConstantIndices": ir.DenseI32ArrayAttr.get([i]), "elem_type": ir.TypeAttr.get(b.i64),
            })  # fmt: skip
            if i < self.symbols:
                word = b.value("llvm.load", b.i64, [at])
                symbol = Index(b.value("arith.index_cast", b.index, [word]), multiple=1)
                e.env[number] = symbol
                e.symbols.append(symbol)
            else:
                type_ = argument.type
                stored = stored_type(type_.element_type)
                memref = flat(b, b.value("llvm.load", pointer, [at]), stored)
                e.buffers[number] = Buffer(memref, scalar_type(type_.element_type), layout_map(type_))

    def _tile(self, e: Emitter, number: Index) -> None:
        """The points of tile `number`: its outer groups' indices, then serial groups, then the block of the vector group."""
        loop, block = self.plan.kernel, self.body.block
        clear(e, block)
        vector = loop.groups[loop.vector] if loop.vector >= 0 else None
        size = group_size(e, loop, vector) if vector else Index(offset=1)
        many = vector is not None and (size.constant is None or size.constant > self.block)
        first = Index()
        if many:
            blocks = e.ix.floordiv(e.ix.add(size, Index(offset=self.block - 1)), Index(offset=self.block))
            number, at = self._split(e, number, blocks)
            first = e.ix.scale(at, self.block)
        for g in reversed(self.outer):
            if g == self.outer[0]:
                at = number
            else:
                number, at = self._split(e, number, group_size(e, loop, loop.groups[g]))
            e.env[block.arguments[loop.groups[g][-1]]] = at

        def step(values: list[ir.Value]) -> list[ir.Value]:
            e.emit(block)
            return values

        def inside(values: list[ir.Value]) -> list[ir.Value]:
            if vector is None:
                return step(values)
            last = size
            if many:
                last = e.ix._elementwise("arith.minsi", e.ix.add(first, Index(offset=self.block)), size)
            whole = size.constant is not None and size.constant % (self.block if many and False else loop.width) == 0
            vector_loop(e, block.arguments[vector[-1]], (first, last), loop.width, [], step, whole=whole)
            return values

        serial = sorted(self.plan.serial - {loop.vector})

        def nest(k: int) -> None:
            if k == len(serial):
                inside([])
                return
            group = loop.groups[serial[k]]
            serial_loop(e, block.arguments[group[-1]], group_size(e, loop, group), [], lambda v: nest(k + 1) or v)

        nest(0)

    def _split(self, e: Emitter, number: Index, size: Index) -> tuple[Index, Index]:
        """Quotient and remainder of a tile's number; neither is negative."""
        if size.constant == 1:
            return number, Index()
        operands = [e.ix.scalar(number), e.ix.scalar(size)]
        quotient = e.b.value("arith.divui", e.b.index, operands)
        rest = e.b.value("arith.remui", e.b.index, operands)
        return Index(quotient, level=e.b.level, multiple=1), Index(rest, level=e.b.level, multiple=1)


def flat(b: Builder, pointer: ir.Value, element: ir.Type) -> ir.Value:
    """The memory at `pointer` as `memref<?xelement>`. Its size is never asked for."""
    descriptor = ir.Type.parse("!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>")
    value = b.value("llvm.mlir.poison", descriptor, [])
    zero, one = (b.value("llvm.mlir.constant", b.i64, [], {"value": ir.IntegerAttr.get(b.i64, n)}) for n in (0, 1))
    for field, at in ((pointer, [0]), (pointer, [1]), (zero, [2]), (one, [3, 0]), (one, [4, 0])):
        attributes = {"position": ir.DenseI64ArrayAttr.get(at)}
        value = b.value("llvm.insertvalue", descriptor, [value, field], attributes)
    type_ = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], element)
    return b.value("builtin.unrealized_conversion_cast", type_, [value])
