"""The manifest of one graph, put together and written beside its dump."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..dialect.interrupts import pass_on
from ..dialect.mlir import ir
from ..dialect.remarks.attribute import remarks
from ..errors import UserError
from ..reporting.compile_record import Record
from ..reporting.module_summary import aten_calls, memory
from .kernels import kernel_records
from .program import program_record

SCHEMA, VERSION = (
    "bascule/manifest",
    1,
)  # another version: a field changed its meaning or is gone; new ones may come with the same
FILE = "manifest.json"


def manifest_of(module: ir.Module, record: Record) -> dict[str, Any]:
    """Of a module of the program stage. What is known later, when kernels are compiled, `complete` adds."""
    with module.context:
        planned = memory(module)
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "graph": record.name,
            "target": record.target,
            "nodes": record.nodes,
            "kernels": kernel_records(module, record.target),
            "program": program_record(module)
            | {
                "aten": [vars(call) for call in aten_calls(module)],
                "arena": None if planned is None else vars(planned),
            },
            "remarks": [remark.to_json() for remark in remarks(module)],
        }


def complete(manifest: dict[str, Any], record: Record, images: Mapping[str, Any]) -> dict[str, Any]:
    """With the times of the stages, what became of kernels, and of those with machine code for a GPU (`images`) what they take."""
    from .cubins import takes

    for kernel in manifest["kernels"]:
        image = next((images[name] for name in images if name in (kernel["name"], *_variants(kernel["name"]))), None)
        if image is not None:
            kernel |= takes(image)
    return manifest | {"seconds": dict(record.seconds), "refused": list(record.refused), "replay": record.replay}


def _variants(name: str) -> list[str]:
    from ..runtime.kernels.launch_plans import ALIGNED, NARROW, WIDE

    return [f"{name}{variant}" for variant in (ALIGNED, NARROW, WIDE)]


def read_manifest(folder: Path) -> dict[str, Any]:
    """That of the graph in `folder`. Raises `UserError` for one that cannot be read, or is of another version."""
    path = folder / FILE
    try:
        manifest = json.loads(path.read_text())
        found = manifest.get("schema"), manifest.get("version")
    except (OSError, ValueError, AttributeError) as error:
        pass_on(error)
        raise UserError(f"cannot be read: {error}", location=str(path), hint="dump again") from None
    if found != (SCHEMA, VERSION):
        raise UserError(f"is {found[0]} {found[1]}, not {SCHEMA} {VERSION}", location=str(path), hint="dump again")
    return manifest


def dump_manifest(record: Record, manifest: dict[str, Any], kernels: Any) -> None:
    """Writes the manifest of a graph that is dumped; `kernels` are those of a finished target."""
    told = complete(manifest, record, getattr(kernels, "images", {}))
    record.dump(FILE, json.dumps(told, indent=1))
