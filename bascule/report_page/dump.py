"""The dump of a compile as it is read: a folder a graph, with a manifest, the IR after each pass, the module that runs."""

import json
from pathlib import Path
from typing import Any

from ..dialect.interrupts import pass_on
from ..errors import UserError
from ..manifest.manifest import FILE, read_manifest
from ..reporting.compile_record import RECORD_FILE
from ..reporting.dump_files import in_order
from .documents import Document, of_module, of_triton, of_wrapper

# Pass -> the title of the IR that it leaves. The last of each name counts.
STAGES = {
    "import": "torch dialect",
    "torch-to-bascule": "tensor stage, as converted",
    "widen-intermediates": "tensor stage, before fusion",
    "form-kernels": "kernel stage, as fused",
    "schedule-kernels": "kernel stage, scheduled",
    "plan-memory": "program stage",
}


def graphs_of(folder: Path) -> list[dict[str, Any]]:
    """Each graph of a dump: name, record, manifest (None where it was not compiled as one) and documents. Raises `UserError`."""
    if not folder.is_dir():
        raise UserError("there is no such folder", location=str(folder))
    graphs = [_graph(inner) for inner in sorted(folder.iterdir(), key=in_order) if (inner / RECORD_FILE).is_file()]
    if not graphs:
        hint = 'a compile writes one with options={"dump": "folder"}'
        raise UserError("there is no dump of a graph", location=str(folder), hint=hint)
    return graphs


def _graph(folder: Path) -> dict[str, Any]:
    manifest = read_manifest(folder) if (folder / FILE).is_file() else None
    record = _json(folder / RECORD_FILE)
    if manifest is not None:  # written later, when kernels were compiled
        record |= {name: manifest[name] for name in ("seconds", "refused", "replay")}
    return {
        "name": folder.name,
        "record": record,
        "manifest": manifest,
        "documents": _documents(folder),
    }


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        pass_on(error)
        raise UserError(f"cannot be read: {error}", location=str(path)) from None


def _documents(folder: Path) -> list[Document]:
    stages = {}
    for path in sorted(folder.glob("*.mlir")):
        number, _, name = path.stem.partition("-")
        if number.isdigit() and name in STAGES:
            stages[name] = path
    found = [of_module(title, stages[name].read_text()) for name, title in STAGES.items() if name in stages]
    found += [of_triton(path.name, path.read_text()) for path in sorted(folder.glob("*.ttir"))]
    wrapper = folder / "wrapper.py"
    return [*found, of_wrapper("the module that runs", wrapper.read_text())] if wrapper.is_file() else found
