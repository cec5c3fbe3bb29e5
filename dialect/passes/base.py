"""The base class of passes: a frozen dataclass whose fields are its options, with a `name` and a `run`."""

import logging
import re
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

from ..errors import UserError
from ..mlir import ir

VALUES, BUFFERS, EITHER = "values", "buffers", "either"
DEBUG_LOG = "bascule.passes"  # with a pass's name behind: the log of what it tells
TARGETS = ("cpu", "cuda", "interpret")  # what kernels are compiled for, where a pass has the option `target`


@dataclass(frozen=True)
class Pass:
    """A transformation of a module, in place.

    A subclass is a frozen dataclass: its fields are the options (of type int, bool, str or float, each with a default), its docstring
    says which IR it takes, which it leaves, and why. It is named in a pipeline as `name{option=value ...}`. `takes`: what the values of the
    functions have to be, VALUES (tensors), BUFFERS (memrefs) or EITHER, and nothing of the torch dialect: other IR is refused before the
    pass runs. Empty: it takes any. `version`, of a pass that does not come with Bascule, stands for its code in the keys of the disk cache,
    beside its name and options.
    """

    name: ClassVar[str]
    takes: ClassVar[str] = ""
    version: ClassVar[str] = ""

    def uuid(self) -> str | None:
        """Tells the code of this pass from others of its name, for the disk cache: its `version`, unless a subclass knows better. None:
        graphs that it ran on are not kept."""
        return self.version or None

    def run(self, module: ir.Module) -> None:
        """Changes `module`. Raises `UserError` with a location for IR it cannot take."""
        raise NotImplementedError

    def debug(self, text: str) -> None:
        """Tells whoever debugs this pass: `bascule-opt --debug-only=name`, or the log `bascule.passes.name`."""
        logging.getLogger(f"{DEBUG_LOG}.{self.name}").debug(text)

    @classmethod
    def from_options(cls, options: dict[str, str], location: str | None = None) -> Self:
        """An instance from the texts of its options."""
        known = {field.name.replace("_", "-"): field for field in fields(cls)}
        values: dict[str, Any] = {}
        for key, text in options.items():
            field = known.get(key)
            if field is None:
                raise UserError(
                    f"pass '{cls.name}' has no option '{key}'",
                    location=location,
                    hint=f"known: {', '.join(known) or 'none'}",
                )
            values[field.name] = _convert(cls.name, key, field.type, text, location)
        for field in fields(cls):
            if field.name not in values and field.default is MISSING and field.default_factory is MISSING:
                name = field.name.replace("_", "-")
                raise UserError(f"pass '{cls.name}' needs the option '{name}'", location=location)
        return cls(**values)

    @classmethod
    def option_defaults(cls) -> dict[str, Any]:
        """Option name -> default."""
        return {field.name.replace("_", "-"): field.default for field in fields(cls)}

    def spelling(self) -> str:
        """The pass as it stands in a pipeline, with the options that are not at their defaults."""
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                text = str(value).lower() if isinstance(value, bool) else _quoted(str(value))
                parts.append(f"{field.name.replace('_', '-')}={text}")
        return f"{self.name}{{{' '.join(parts)}}}" if parts else self.name


def _quoted(text: str) -> str:
    """A value as one word of a pipeline."""
    if re.fullmatch(r"[^\s\"'(){}]+", text):
        return text
    return f"'{text}'" if '"' in text else f'"{text}"'


def check_target(name: str, target: str) -> None:
    """Raises `UserError` for an option `target` of the pass `name` that is none of `TARGETS`."""
    if target not in TARGETS:
        raise UserError(f"unknown target '{target}'", location=name, hint=f"known: {', '.join(TARGETS)}")


def _convert(name: str, key: str, type_: Any, text: str, location: str | None) -> Any:
    kind = type_ if isinstance(type_, str) else getattr(type_, "__name__", str(type_))
    if kind not in ("bool", "int", "float", "str"):
        hint = "options that a pipeline can spell are bool, int, float and str"
        raise UserError(f"option '{key}' of pass '{name}' is of type {kind}", location=location, hint=hint)
    try:
        if kind == "bool":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return {"int": int, "float": float, "str": str}[kind](text)
    except (KeyError, ValueError):
        raise UserError(
            f"option '{key}' of pass '{name}' takes a value of type {kind}, got '{text}'", location=location
        ) from None
