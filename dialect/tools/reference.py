"""The dialect reference, `docs/dialect.md`, made from the definitions: operations, attributes, passes.

python -m bascule.dialect.tools.reference --write docs/dialect.md     writes it
python -m bascule.dialect.tools.reference --check docs/dialect.md     fails when it is stale
"""

import inspect
import sys
from pathlib import Path

from .. import passes
from ..ir import Bascule, functions, types
from ..ir.loop_ops import REDUCE_KINDS, SCAN_KINDS
from ..ir.memory_ops import STORE_MODES
from ..ir.random_op import DISTRIBUTIONS
from ..mlir import ext

TRAITS = {
    "Pure": "no effects",
    "Writes": "writes memory",
    "IsTerminatorTrait": "terminator",
}
PARTS = (
    (ext.OperandDef, "operand"),
    (ext.AttributeDef, "attribute"),
    (ext.ResultDef, "result"),
    (ext.RegionDef, "region"),
)


def _doc(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def _type_name(constraint: object) -> str:
    name = getattr(constraint, "__name__", str(constraint))
    return {"Any": "any type", "IndexType": "index"}.get(name, name.removesuffix("Attr") if name != "Any" else name)


def _fields(cls: type) -> list[str]:
    rows = []
    for field in cls._fields:  # type: ignore[attr-defined]
        part = next(name for kind, name in PARTS if isinstance(field, kind))
        several = " (any number)" if field.variadicity == ext.Variadicity.variadic else ""
        rows.append(
            f"| `{field.name}` | {part}{several} | {_type_name(field.constraint) if part != 'region' else ''} |"
        )
    return ["| name | what | of |", "| --- | --- | --- |", *rows] if rows else []


def operation_lines(cls: type) -> list[str]:
    """The entry of an operation, lines of Markdown."""
    traits = [TRAITS[t.__name__] for t in cls._traits if t.__name__ in TRAITS]  # type: ignore[attr-defined]
    return [
        f"### `{cls.OPERATION_NAME}`" + (f" ({', '.join(traits)})" if traits else ""),  # type: ignore[attr-defined]
        "",
        _doc(cls),
        "",
        *_fields(cls),
        "",
    ]


def attribute_lines(cls: type) -> list[str]:
    """The entry of an attribute of the dialect, lines of Markdown."""
    return [f"### `#{cls.attr_name}`", "", _doc(cls), ""]  # type: ignore[attr-defined]


def pass_lines(name: str) -> list[str]:
    """The entry of a pass of ours, lines of Markdown."""
    cls = passes.find(name)
    assert cls is not None
    options = [f"| `{key}` | `{default!r}` |" for key, default in cls.option_defaults().items()]
    table = ["", "| option | default |", "| --- | --- |", *options] if options else []
    return [f"### `{name}`", "", _doc(cls), *table, ""]


def reference() -> str:
    """The text of `docs/dialect.md`."""
    lines = [
        "# The bascule dialect",
        "",
        "Made from the definitions in `dialect/ir` and `dialect/passes` by `make docs`; do not edit.",
        "",
        "Operations have MLIR's generic form only: IRDL, through which the Python bindings define them, has no assembly formats. Each example",
        "below is parsed, verified and run by the tests, and printed and parsed again.",
        "",
        "## Functions",
        "",
        inspect.cleandoc(functions.__doc__ or ""),
        "",
        "## Element types",
        "",
        inspect.cleandoc(types.__doc__ or "").partition("\n")[2].strip(),
        "",
        "## Operations",
        "",
    ]
    for cls in sorted(Bascule.operations, key=lambda c: c.OPERATION_NAME):
        lines += operation_lines(cls)
    lines += [
        "Kinds of `bascule.reduce`, with the number of results: "
        + ", ".join(f"`{kind}` ({count})" for kind, count in REDUCE_KINDS.items())
        + ".",
        "",
        f"Kinds of `bascule.scan`: {', '.join(f'`{kind}`' for kind in SCAN_KINDS)}.",
        "",
        f"Modes of `bascule.store`: {', '.join(f'`{mode}`' for mode in STORE_MODES)}.",
        "",
        f"Distributions of `bascule.random`: {', '.join(f'`{name}`' for name in DISTRIBUTIONS)}.",
        "",
        "## Attributes",
        "",
    ]
    for cls in Bascule.attributes:
        lines += attribute_lines(cls)
    lines += ["## Passes", ""]
    for name in passes.own_names():
        lines += pass_lines(name)
    return "\n".join(lines).rstrip() + "\n"


def main(argv: list[str]) -> int:
    if len(argv) != 2 or argv[0] not in ("--write", "--check"):
        print(__doc__, file=sys.stderr)
        return 2
    path, text = Path(argv[1]), reference()
    if argv[0] == "--write":
        path.write_text(text)
        return 0
    if not path.exists() or path.read_text() != text:
        print(f"{path} is stale: run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
