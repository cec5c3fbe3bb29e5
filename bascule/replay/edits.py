"""Edits in a dump: the graph of it that is at hand, and the files whose text is another than when it was written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError
from ..reporting.stage_manifest import IMPORT, Manifest

OPTION = "option 'replay'"
IR = ".mlir"


@dataclass(frozen=True)
class Edits:
    """Of one graph, whose dump lies in `folder`.

    `ir`: the file of IR that was edited, None without one; `passes`: the names of those that had run when it was written. `texts`: the files
    that were edited of those made after all passes, a kernel's or the wrapper.
    """

    folder: Path
    ir: Path | None
    passes: tuple[str, ...]
    texts: Mapping[str, str]

    @property
    def place(self) -> str | None:
        """The first file that was edited; None if none was."""
        if self.ir is not None:
            return str(self.ir)
        return next((str(self.folder / file) for file in self.texts), None)


def edits_of(directory: str, name: str, source: str) -> Edits:
    """Edits of the graph `name`, whose import has the digest `source`, in the dump in `directory`.

    It is found by its import: graphs have other numbers in another process, or later in the same. Of several that are alike the one of its name
    counts. Raises `UserError` where no graph is alike, or several are, none of its name, with edits in some; where an edit would have no effect.
    """
    folders = sorted(path for path in Path(directory).iterdir() if path.is_dir())
    found = {folder: manifest for folder in folders if (manifest := Manifest.read(folder)) is not None}
    _refuse_edits_of_splits(found)
    alike = {folder: manifest for folder, manifest in found.items() if manifest.source == source}
    if not alike:
        raise UserError(
            f"no graph in '{directory}' is {name}: the program, its inputs or the options are others than when it was dumped",
            location=OPTION,
            hint="run what was dumped, or dump again",
        )
    named = [folder for folder in alike if folder.name == name]
    edited = [folder for folder, manifest in alike.items() if manifest.edited(folder)]
    if not named and len(alike) > 1 and edited:
        raise UserError(
            f"{name} may be {' or '.join(folder.name for folder in alike)}, and {edited[0].name} was edited",
            location=OPTION,
            hint="replay in a new process: graphs have the numbers there that they had when they were dumped",
        )
    folder = (named or [*alike])[0]
    return _edits(folder, alike[folder])


def _refuse_edits_of_splits(found: Mapping[Path, Manifest]) -> None:
    for folder, manifest in found.items():
        if not manifest.source and manifest.edited(folder):
            raise UserError(
                "is of a graph that was compiled in parts, and is not replayed",
                location=str(folder / manifest.stages[manifest.edited(folder)[0]].file),
                hint="undo the edit; the folders of its parts may be edited",
            )


def _edits(folder: Path, manifest: Manifest) -> Edits:
    numbers = manifest.edited(folder)
    stages = [manifest.stages[number] for number in numbers]
    ir = [number for number in numbers if manifest.stages[number].file.endswith(IR)]
    if ir and len(stages) > 1:
        files = ", ".join(stage.file for stage in stages)
        raise UserError(
            f"several stages of one graph were edited: {files}",
            location=str(folder),
            hint="a later one is made of an earlier one: keep the edits of one, and undo the others",
        )
    if not ir:
        return Edits(folder, None, (), {stage.file: (folder / stage.file).read_text() for stage in stages})
    before = manifest.stages[: ir[0] + 1]
    return Edits(folder, folder / before[-1].file, tuple(s.left_by for s in before if s.left_by != IMPORT), {})
