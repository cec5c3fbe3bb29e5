"""Remarks of passes as records: what was decided about an op, about which partner, why, and what it costs. Without MLIR: what a cache keeps
of a compile has them too."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

PASSED, MISSED, NOTE = "passed", "missed", "note"  # an optimization made; one not made; what else a pass has to say


@dataclass(frozen=True)
class Place:
    """An op by the operator that it was made from (or its own name) and the user's line."""

    operator: str
    source: str | None = None  # "model.py:12:0"

    def __str__(self) -> str:
        return f"{self.operator} ({self.source})" if self.source else self.operator


@dataclass(frozen=True)
class Remark:
    """One decision. `cost` is in bytes of memory traffic: more of it where an optimization is missed, saved where it is made."""

    pass_name: str  # empty: of a pass that gave text alone
    kind: str
    decision: str  # "not fused", "split into 8 chunks of 64"
    reason: str
    op: Place
    partner: Place | None = None
    cost: int | None = None
    function: str = ""  # the graph function that has it
    kernel: str = ""  # the kernel function whose call has it

    @property
    def message(self) -> str:
        """The sentence after the op."""
        about = f"{self.decision} with {self.partner}" if self.partner else self.decision
        told = ": ".join(filter(None, (about, self.reason)))
        return f"{told}; {megabytes(self.cost)} more memory traffic" if self.kind == MISSED and self.cost else told

    def __str__(self) -> str:
        return f"{self.op} {self.message}" if self.decision else self.message

    @property
    def diagnostic(self) -> str:
        """The sentence without the op's line, which a diagnostic names first, and with the pass at its end, as `-Rpass` of clang has it."""
        told = str(replace(self, op=replace(self.op, source=None)))
        return f"{told} [{self.pass_name}]" if self.pass_name else told

    def to_json(self) -> dict[str, Any]:
        record = asdict(self)
        return {"pass": record.pop("pass_name"), **record}

    @staticmethod
    def from_json(record: dict[str, Any]) -> "Remark":
        told = dict(record)
        partner = told.pop("partner")
        return Remark(
            told.pop("pass"), op=Place(**told.pop("op")), partner=None if partner is None else Place(**partner), **told
        )


def chosen(remarks: Sequence[Remark], passes: Collection[str] = (), functions: Collection[str] = ()) -> list[Remark]:
    """Those of the passes and of the functions, graphs or kernels, that are named; no names are all."""
    return [
        r
        for r in remarks
        if (not passes or r.pass_name in passes) and (not functions or {r.function, r.kernel} & set(functions))
    ]


def megabytes(count: int) -> str:
    """A number of bytes, for people."""
    return (
        f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB" if count >= 1000 else f"{count} bytes"
    )
