"""Kernels for tests of what is found out about them: memrefs are arguments, and a body is given as text."""

from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import Body, decode
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.mlir import ir


def loop(name: str, index: str, size: str, body: str, yields: str = "", kind: str = "sum") -> str:
    """A loop of one range; a reduce of f32 where something is yielded."""
    extra = f'kind = "{kind}", ' if yields else ""
    result = "f32" if yields else "()"
    given = f"({yields}) : (f32)" if yields else "() : ()"
    named = f"%{name} = " if yields else ""
    return f"""
    {named}"bascule.{"reduce" if yields else "foreach"}"() ({{
    ^bb0(%{index}: index):{body}
      "bascule.yield"{given} -> ()
    }}) {{{extra}ranges = affine_map<()[s0] -> ({size})>}} : () -> {result}"""


def load(name: str, buffer: str, *indices: str) -> str:
    return f"\n      %{name} = memref.load %{buffer}[{', '.join(f'%{i}' for i in indices)}] : !{buffer}"


def store(value: str, buffer: str, *indices: str) -> str:
    operands = ", ".join(f"%{name}" for name in (value, buffer, *indices))
    types = ", ".join(["f32", f"!{buffer}", *["index"] * len(indices)])
    return f'\n      "bascule.store"({operands}) : ({types}) -> ()'


def module_of(buffers: dict[str, str], ranges: dict[str, str], body: str) -> ir.Module:
    """A kernel over `ranges` (index -> size, of %s0) with `buffers` (name -> memref type), in the context at hand."""
    aliases = "".join(f"!{name} = {type_}\n" for name, type_ in buffers.items())
    arguments = ", ".join(["%s0: index", *(f"%{name}: !{name}" for name in buffers)])
    indices = ", ".join(f"%{index}: index" for index in ranges)
    return ir.Module.parse(f"""{aliases}
func.func private @k({arguments}) attributes {{bascule.kernel}} {{
  "bascule.kernel"() ({{
  ^bb0({indices}):{body}
    "bascule.yield"() : () -> ()
  }}) {{ranges = affine_map<()[s0] -> ({", ".join(ranges.values())})>}} : () -> ()
  return
}}""")


def body_of(op: ir.Operation) -> Body:
    """The kernel's body, with forms of its accesses."""
    return decode(op, indexing=Indexing(symbols_of(op.parent.operation), Simplifier()))
