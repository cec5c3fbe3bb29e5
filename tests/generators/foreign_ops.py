"""Operations of other dialects, put among ours: the mutation of `ir_mutations.py` that has templates."""

import re
from random import Random

from bascule.dialect.ir import context
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir

_LOCAL = re.compile(r"%(a|b|c|d|f|i|k|u|x|true)\b")  # names of the templates' own
_BOUNDS = "%a = arith.constant 0 : index\n%b = arith.constant 3 : index\n%c = arith.constant 1 : index\n"
# What is put in, by what it needs: {t} a tensor, {m} a buffer and {n} another of its type, {s} a number, {v} any value; in capitals their types,
# {E} the elements' type. `%new` is what may stand for {v} from there on, where it is of its type.
TEMPLATES = (
    "memref.copy {m}, {n} : {M} to {M}",
    "memref.dealloc {m} : {M}",
    "%new = memref.alloc() : memref<4xf32>",
    "%new = memref.alloca() : memref<4xf32>",
    "%new = memref.cast {m} : {M} to memref<*x{E}>",
    "%c = arith.constant 0 : index\n%d = memref.dim {m}, %c : {M}",
    "%c = arith.constant 0 : index\n%d = tensor.dim {t}, %c : {T}",
    "%c = arith.constant 0 : index\n%d = memref.load {m}[%c] : {M}",
    "%c = arith.constant 0 : index\n%d = tensor.extract {t}[%c] : {T}",
    "%c = arith.constant 0 : index\n%d = tensor.extract {t}[%c] : {T}\n%new = tensor.insert %d into {t}[%c] : {T}",
    "%new = tensor.empty() : {T}",
    "%new = bufferization.alloc_tensor() : {T}",
    "%new = bufferization.alloc_tensor() copy({t}) : {T}",
    "%b = bufferization.to_buffer {t} : {T} to memref<4xf32>",
    "%new = arith.addf {v}, {v} : {V}",
    "%new = arith.addi {v}, {v} : {V}",
    "%new = math.exp {v} : {V}",
    "%new = arith.negf {v} : {V}",
    "%new = tensor.cast {t} : {T} to {T}",
    "%u = tensor.cast {t} : {T} to tensor<*x{E}>\n%new = tensor.cast %u : tensor<*x{E}> to {T}",
    "%new = builtin.unrealized_conversion_cast {v} : {V} to {V}",
    "%true = arith.constant true\nscf.if %true {{\n}}",
    "%true = arith.constant true\n%new = scf.if %true -> ({V}) {{\nscf.yield {v} : {V}\n}} else {{\nscf.yield {v} : {V}\n}}",
    "%true = arith.constant true\n%new = arith.select %true, {v}, {v} : {V}",
    _BOUNDS + "scf.for %i = %a to %b step %c {{\n}}",
    _BOUNDS + "%new = scf.for %i = %a to %b step %c iter_args(%x = {v}) -> ({V}) {{\nscf.yield %x : {V}\n}}",
    _BOUNDS + "scf.parallel (%i) = (%a) to (%b) step (%c) {{\n}}",
    "%f = arith.constant false\nscf.while : () -> () {{\nscf.condition(%f)\n}} do {{\nscf.yield\n}}",
    "affine.for %i = 0 to 4 {{\n}}",
    "affine.parallel (%i) = (0) to (4) {{\n}}",
    "scf.execute_region {{\nscf.yield\n}}",
    "%new = linalg.fill ins({s} : {S}) outs({t} : {T}) -> {T}",
    "linalg.fill ins({s} : {S}) outs({m} : {M})",
    "linalg.copy ins({m} : {M}) outs({n} : {M})",
    "%new = linalg.copy ins({t} : {T}) outs({t} : {T}) -> {T}",
    "func.call @main() : () -> ()",
    "%f = func.constant @main : () -> ()\nfunc.call_indirect %f() : () -> ()",
    '"foreign.op"({v}) : ({V}) -> ()',
    '%new = "foreign.op"({v}) : ({V}) -> {V}',
    '%true = arith.constant true\ncf.assert %true, "holds"',
    "cf.br ^after\n^after:",
    "%true = arith.constant true\ncf.cond_br %true, ^after, ^after\n^after:",
    "%new = llvm.mlir.undef : {V}",
    "%new = ub.poison : {V}",
    "%k = torch.constant.int 3",
    "%k = torch.constant.none",
    '%new = "bascule.view"({v}) {{map = affine_map<(d0) -> (d0)>, shape = affine_map<() -> (4)>}} : ({V}) -> {V}',
    '"bascule.copy_into"({v}, {v}) : ({V}, {V}) -> ()',
    '"bascule.yield"({v}) : ({V}) -> ()',
    '"bascule.kernel"() ({{\n"bascule.yield"() : () -> ()\n}}) {{ranges = affine_map<() -> ()>}} : () -> ()',
    '"bascule.kernel"() ({{\n^bb0(%i: index):\n"bascule.yield"() : () -> ()\n}}) {{ranges = affine_map<() -> (0)>}} : () -> ()',
    '%new = "bascule.reduce"() ({{\n^bb0(%k: index):\n"bascule.yield"({v}) : ({V}) -> ()\n}}) '
    '{{kind = "sum", ranges = affine_map<() -> (3)>}} : () -> {V}',
    '%k = "bascule.random"({s}, {s}, {s}) : ({S}, {S}, {S}) -> f32',
    "%c = arith.constant dense<1.0> : {V}",
    "%k = arith.constant 1 : i3",
    "%k = arith.constant dense<1.0> : vector<4xf32>",
    "%k = complex.constant [1.0, 2.0] : complex<f32>",
    "%i = index.constant 3",
    "gpu.barrier",
    "return",
)


def foreign(text: str, random: Random) -> str | None:
    """An operation of another dialect, or one of ours where it has no place; its result may be what a value was."""
    with context() as ctx:
        ctx.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError:
            return None
        ops = [op for op in ops_in(module.operation)[1:] if op.name != "func.func"]
        if not ops:
            return None
        op = random.choice(ops)
        above = visible(op)
        found = {"v": above, "t": [v for v in above if isinstance(v.type, ir.RankedTensorType)]}
        found["m"] = [v for v in above if isinstance(v.type, ir.MemRefType)]
        found["s"] = [v for v in above if v not in found["t"] and v not in found["m"]]
        chosen = {name: random.choice(values) for name, values in found.items() if values}
        if "m" in chosen:
            chosen["n"] = random.choice([v for v in found["m"] if v.type == chosen["m"].type])
        known = [t for t in TEMPLATES if all(name in chosen for name in "tmnsv" if f"{{{name}}}" in t)]
        template = random.choice(known)
        named = (name for name in "tmv" if f"{{{name}}}" in template or f"{{{name.upper()}}}" in template)
        value = next((chosen[name] for name in named if name in chosen), None)
        replaced = value is not None and "%new" in template and random.random() < 0.7
        names = {name: value.get_name(use_local_scope=True) for name, value in chosen.items()}
        names |= {name.upper(): str(value.type) for name, value in chosen.items()}
        if element := next((chosen[n].type.element_type for n in "tm" if n in chosen and f"{{{n}}}" in template), None):
            names["E"] = str(element)
        made = [value.type] if replaced else []
        mark = ir.Operation.create("mark.here", ip=ir.InsertionPoint(op), results=made, loc=op.location)
        if replaced:
            _use_below(value, mark)
        printed = module.operation.get_asm(use_local_scope=True)
    try:
        return _filled(printed, _LOCAL.sub(r"%in_\1", template).format(**names))
    except KeyError:
        return None


def visible(op: ir.Operation) -> list[ir.Value]:
    """Values that `op` may use, more or less: those above it, in the blocks around it up to its function."""
    found: list[ir.Value] = []
    at: ir.Operation | None = op
    while at is not None and at.name not in ("func.func", "builtin.module"):
        block = at.block
        found += block.arguments
        for other in block.operations:
            if other.operation == at:
                break
            found += other.operation.results
        at = at.parent
        at = at.operation if at is not None else None
    return found


def _use_below(value: ir.Value, mark: ir.Operation) -> None:
    """Has all that uses `value` below `mark`, in its block, use the result of `mark`."""
    below = False
    for other in mark.block.operations:
        if below:
            for each in ops_in(other.operation):
                for n, operand in enumerate(each.operands):
                    if operand == value:
                        each.operands[n] = mark.results[0]
        below = below or other.operation == mark


def _filled(printed: str, text: str) -> str:
    """`printed` with `text` where the mark stands, whose values get names of their own."""
    lines = printed.splitlines()
    at = next(n for n, line in enumerate(lines) if '"mark.here"' in line)
    name = lines[at].split("=")[0].strip() if "=" in lines[at] else "%inserted"
    lines[at] = text.replace("%new", name)
    return "\n".join(lines) + "\n"
