"""The graphs of a dump as they are to be run: the program of each, its manifest, its inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..dialect.interrupts import pass_on
from ..dialect.ir import context
from ..dialect.mlir import ir
from ..dialect.tools.parsing import parse
from ..errors import UserError
from ..manifest.manifest import FILE, read_manifest
from ..replay.edits import IR
from ..replay.saved_inputs import FILES, SHAPES, VALUES
from ..reporting.dump_files import in_order
from ..reporting.stage_manifest import FILE as STAGES
from ..reporting.stage_manifest import Manifest

DUMP = 'a compile writes one with options={"dump": "folder"}'

# Of a manifest, and of each kernel in it.
FIELDS = {"kernels": list, "target": str, "nodes": int}
OF_KERNELS = {"name": str, "sources": list, "operators": list}


@dataclass(frozen=True)
class DumpedGraph:
    """`program`: the file that the last pass left; `inputs`: what its first call was given, None where that was not kept."""

    folder: Path
    manifest: Mapping[str, Any]
    program: Path
    inputs: Path | None

    @property
    def kernels(self) -> list[dict[str, Any]]:
        return self.manifest["kernels"]

    def module(self) -> ir.Module:
        """The program. Raises `UserError`."""
        try:
            with context():
                return parse(self.program.read_text(), str(self.program))
        except (ir.MLIRError, OSError, UnicodeDecodeError) as error:
            pass_on(error)
            raise UserError(f"is no program: {error}", location=str(self.program), hint="dump again") from None


def graphs_in(folder: Path) -> list[DumpedGraph]:
    """Those of a dump that have kernels, or of the folder of one graph. Raises `UserError` where there is none, or files are not as they were
    dumped."""
    if not folder.is_dir():
        raise UserError("there is no such folder", location=str(folder), hint=DUMP)
    inside = sorted((path for path in folder.iterdir() if path.is_dir()), key=in_order)
    found = [graph for path in (folder, *inside) if (graph := _graph(path)) is not None]
    if not found:
        raise UserError("there is no dump of a graph", location=str(folder), hint=DUMP)
    graphs = [graph for graph in found if graph.kernels]
    if not graphs:
        raise UserError("no graph of the dump has a kernel", location=str(folder))
    return graphs


def _graph(folder: Path) -> DumpedGraph | None:
    """That of a folder; None where it has none that was compiled as one."""
    if not (folder / FILE).is_file():
        return None
    manifest, stages = read_manifest(folder), Manifest.read(folder)
    _check(manifest, str(folder / FILE))
    programs = [stage.file for stage in stages.stages if stage.file.endswith(IR)] if stages is not None else []
    if stages is None or not programs:
        raise UserError("does not tell which file is the program", location=str(folder / STAGES), hint="dump again")
    edited = stages.edited(folder)
    if edited:
        raise UserError(
            "was edited: the manifest tells of another program",
            location=str(folder / stages.stages[edited[0]].file),
            hint=f"run the model with options={{'replay': '{folder.parent}', 'dump': ..}}, and give that dump",
        )
    kept = (folder / FILES[kind] for kind in (VALUES, SHAPES))
    return DumpedGraph(folder, manifest, folder / programs[-1], next((path for path in kept if path.is_file()), None))


def _check(manifest: Mapping[str, Any], place: str) -> None:
    """Refuses a manifest without what is told of kernels."""
    for fields, records in ((FIELDS, [manifest]), (OF_KERNELS, manifest.get("kernels", ()))):
        for record in records if isinstance(records, list) else ():
            for name, type_ in fields.items():
                if not isinstance(record, dict) or not isinstance(record.get(name), type_):
                    raise UserError(f"has no '{name}' of type {type_.__name__}", location=place, hint="dump again")
