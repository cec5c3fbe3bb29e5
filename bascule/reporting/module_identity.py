"""Graph that a module is the IR of, as an attribute of the module: the graph's name, its direction, Dynamo's number of the compile.

It stays through all passes, and in what is dumped. It is no part of what is compiled: the disk cache asks for its key before.
"""

from ..dialect.ir.attribute_names import COMPILE
from ..dialect.mlir import ir


def identify(module: ir.Module, name: str, direction: str, compile_id: str = "") -> None:
    """Notes on `module` what it is the IR of; what is empty is left out."""
    told = {"name": name, "direction": direction, "id": compile_id}
    with module.context:
        named = {key: ir.StringAttr.get(text) for key, text in told.items() if text}
        module.operation.attributes[COMPILE] = ir.DictAttr.get(named)


def identity_of(module: ir.Module) -> dict[str, str]:
    """Note of `identify`; empty for a module that nobody compiled."""
    attributes = module.operation.attributes
    if COMPILE not in attributes:
        return {}
    return {entry.name: entry.attr.value for entry in attributes[COMPILE]}


def title_of(module: ir.Module) -> str:
    """The same for people, "graph0_forward (forward, compile 0/1)"; empty as well."""
    told = identity_of(module)
    notes = ", ".join(
        f"compile {told[key]}" if key == "id" else told[key] for key in ("direction", "id") if key in told
    )
    return f"{told.get('name', '')} ({notes})".strip() if notes else told.get("name", "")
