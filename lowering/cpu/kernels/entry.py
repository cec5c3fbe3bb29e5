"""The entry of a kernel: packs its arguments into an array of 64-bit words and runs the segments in order, on one thread or several.

    void name(int64_t symbols.., void *buffers.., int64_t threads)

or, where these are more than `PARAMETERS`, one array of them (`runtime/modules/loading.py` calls it).

Threads are those of the OpenMP runtime that torch has loaded (`GOMP_parallel`); there is no other pool. MLIR's ExecutionEngine finds a
function under its name with the prefix `_mlir_`, and makes a function of its own that calls it, which nobody needs.
"""

from collections.abc import Sequence

PARAMETERS = 1024  # more ctypes does not pass
INTERNAL = "llvm.linkage = #llvm.linkage<internal>"
NOINLINE = "llvm.no_inline"  # one copy of the code: each of these is called from several places

DECLARATIONS = """
func.func private @GOMP_parallel(!llvm.ptr, !llvm.ptr, i32, i32)
func.func private @omp_get_thread_num() -> i32
func.func private @omp_get_num_threads() -> i32
"""

PART = "func.func private @{name}__part{i}(!llvm.ptr, index, index) attributes {{{noinline}, {internal}}}\n"

# A thread of n takes tiles [tiles * i / n, tiles * (i + 1) / n).
PARALLEL = """
func.func private @{name}__tiles{i}({symbol_types}) -> (index, index) attributes {{{internal}}}
func.func private @{name}__thread{i}(%data: !llvm.ptr) attributes {{{internal}}} {{
  %at = llvm.getelementptr %data[{word}] : (!llvm.ptr) -> !llvm.ptr, i64
  %tiles = llvm.load %at : !llvm.ptr -> i64
  %i = func.call @omp_get_thread_num() : () -> i32
  %n = func.call @omp_get_num_threads() : () -> i32
  %i64 = arith.extui %i : i32 to i64
  %n64 = arith.extui %n : i32 to i64
  %one = arith.constant 1 : i64
  %next = arith.addi %i64, %one : i64
  %a = arith.muli %tiles, %i64 : i64
  %b = arith.muli %tiles, %next : i64
  %c = arith.divui %a, %n64 : i64
  %d = arith.divui %b, %n64 : i64
  %lower = arith.index_cast %c : i64 to index
  %upper = arith.index_cast %d : i64 to index
  func.call @{name}__part{i}(%data, %lower, %upper) : (!llvm.ptr, index, index) -> ()
  return
}}
"""

ENTRY = """
func.func @_mlir_{name}({parameters}) attributes {{{noinline}}} {{
{taken}
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %count = llvm.mlir.constant({words} : i64) : i64
  %data = llvm.alloca %count x i64 : (i64) -> !llvm.ptr
  %wanted = arith.index_cast %threads : i64 to index
{body}
  return
}}
"""

SERIAL_CALL = "  func.call @{name}__part{i}(%data, %zero, %one) : (!llvm.ptr, index, index) -> ()"

# Without tiles there are no points, and what the part reads before its loops may not be there.
PARALLEL_CALL = """
  %tiles{i}, %most{i} = func.call @{name}__tiles{i}({symbols}) : ({symbol_types}) -> (index, index)
  %word{i} = arith.index_cast %tiles{i} : index to i64
  %at_tiles{i} = llvm.getelementptr %data[{word}] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %word{i}, %at_tiles{i} : i64, !llvm.ptr
{partials}
  %n{i} = arith.minsi %wanted, %most{i} : index
  %several{i} = arith.cmpi sgt, %n{i}, %one : index
  scf.if %several{i} {{
    %f = func.constant @{name}__thread{i} : (!llvm.ptr) -> ()
    %g = builtin.unrealized_conversion_cast %f : (!llvm.ptr) -> () to !llvm.ptr
    %count32 = arith.index_cast %n{i} : index to i32
    %flags = arith.constant 0 : i32
    func.call @GOMP_parallel(%g, %data, %count32, %flags) : (!llvm.ptr, !llvm.ptr, i32, i32) -> ()
  }} else {{
    %some{i} = arith.cmpi sgt, %tiles{i}, %zero : index
    scf.if %some{i} {{
      func.call @{name}__part{i}(%data, %zero, %tiles{i}) : (!llvm.ptr, index, index) -> ()
    }}
  }}"""

# A reduction shared among threads leaves its accumulators, `width` words a tile, here.
PARTIALS = """
  %width{i} = arith.constant {width} : index
  %size{i} = arith.muli %tiles{i}, %width{i} : index
  %partials{i} = memref.alloc(%size{i}) : memref<?xi64>
  %place{i} = memref.extract_aligned_pointer_as_index %partials{i} : memref<?xi64> -> index
  %place64_{i} = arith.index_cast %place{i} : index to i64
  %at_partials{i} = llvm.getelementptr %data[{word}] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %place64_{i}, %at_partials{i} : i64, !llvm.ptr"""


def entry(name: str, symbols: int, arguments: int, words: int, segments: Sequence[tuple[int, int, int]]) -> str:
    """The text of the entry and the threads' functions. A segment is (word of its tile count or -1 if it is serial, word of the
    pointer to its partial results or -1, words of a partial result)."""
    names = [f"%s{i}" if i < symbols else f"%b{i - symbols}" for i in range(arguments)]
    types = ["i64" if i < symbols else "!llvm.ptr" for i in range(arguments)]
    symbol_types = ", ".join(["index"] * symbols)
    body = []
    for i, (value, type_) in enumerate(zip(names, types)):
        body.append(f"  %at{i} = llvm.getelementptr %data[{i}] : (!llvm.ptr) -> !llvm.ptr, i64")
        body.append(f"  llvm.store {value}, %at{i} : {type_}, !llvm.ptr")
    body += [f"  %i{i} = arith.index_cast %s{i} : i64 to index" for i in range(symbols)]
    functions, frees = [], []
    for i, (word, pointer, width) in enumerate(segments):
        functions.append(PART.format(name=name, i=i, noinline=NOINLINE, internal=INTERNAL))
        if word < 0:
            body.append(SERIAL_CALL.format(name=name, i=i))
            continue
        functions.append(PARALLEL.format(name=name, i=i, word=word, symbol_types=symbol_types, internal=INTERNAL))
        partials = PARTIALS.format(i=i, width=width, word=pointer) if pointer >= 0 else ""
        if pointer >= 0:
            frees.append(f"  memref.dealloc %partials{i} : memref<?xi64>")
        symbol_names = ", ".join(f"%i{k}" for k in range(symbols))
        body.append(
            PARALLEL_CALL.format(
                name=name, i=i, word=word, symbols=symbol_names, symbol_types=symbol_types, partials=partials
            )
        )
    given = [*zip(names, types), ("%threads", "i64")]
    parameters = ", ".join(f"{n}: {t}" for n, t in given)
    taken = []
    if len(given) > PARAMETERS:
        parameters = "%given: !llvm.ptr"
        for i, (value, type_) in enumerate(given):
            taken.append(f"  %given{i} = llvm.getelementptr %given[{i}] : (!llvm.ptr) -> !llvm.ptr, i64")
            taken.append(f"  {value} = llvm.load %given{i} : !llvm.ptr -> {type_}")
    text = ENTRY.format(
        name=name,
        parameters=parameters,
        noinline=NOINLINE,
        words=words,
        taken="\n".join(taken),
        body="\n".join(body + frees),
    )
    return "".join(functions) + text
