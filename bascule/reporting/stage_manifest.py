"""`stages.json`, beside the IR that a dump has of one graph: which pass left which file, and what was in it, so that an edit is seen."""

import json
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from ..errors import UserError

FILE, FORMAT = "stages.json", 1
IMPORT, WRAPPER = "import", "wrapper"  # what left the first file, and the last


def digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class StageFile:
    """One file: what left it, a pass or one of the above, and the digest of its text as it was written."""

    file: str
    left_by: str
    digest: str


@dataclass
class Manifest:
    """`graph`: the name; `direction`: forward, backward or inference; `source`: the digest of the imported IR, without the user's lines."""

    graph: str
    direction: str
    source: str = ""
    stages: list[StageFile] = field(default_factory=list)

    def add(self, file: str, left_by: str, text: str) -> None:
        self.stages.append(StageFile(file, left_by, digest_of(text)))

    def text(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)

    @staticmethod
    def read(folder: Path) -> "Manifest | None":
        """That of the graph in `folder`; None if it has none. Raises `UserError` for one that cannot be read."""
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            told = json.loads(path.read_text())
            if told.pop("format") != FORMAT:
                raise UserError("was written by another version of Bascule", location=str(path), hint="dump again")
            stages = [StageFile(**stage) for stage in told.pop("stages")]
            return Manifest(**told, stages=stages)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"cannot be read: {error}", location=str(path), hint="dump again") from error

    def edited(self, folder: Path) -> list[int]:
        """The numbers of the files in `folder` whose text is another now. Raises `UserError` for one that is gone."""
        numbers = []
        for number, stage in enumerate(self.stages):
            path = folder / stage.file
            try:
                text = path.read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise UserError(f"cannot be read: {error}", location=str(path), hint="dump again") from error
            if digest_of(text) != stage.digest:
                numbers.append(number)
        return numbers
