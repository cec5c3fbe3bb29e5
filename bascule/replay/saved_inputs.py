"""Inputs of a graph beside its IR: the arguments of its function, as values (`inputs.pt`), or as sizes and a seed (`inputs.json`).

A function takes the same arguments at every stage: its symbols, its tensors, then the constants that the graph holds.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bascule.runtime.memory.extents import extent

from ..dialect.interpreter import random_tensor
from ..dialect.interrupts import pass_on
from ..errors import UserError
from ..reporting.stage_manifest import digest_of

VALUES, SHAPES = "values", "shapes"
FILES = {VALUES: "inputs.pt", SHAPES: "inputs.json"}
FORMAT, SEED = 1, 0

Arguments = Sequence[torch.Tensor | int]


def write_inputs(folder: Path, arguments: Arguments, kind: str) -> Path:
    """Writes the file of `kind` into `folder`; returns its path. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILES[kind]
    if kind == VALUES:
        torch.save([on_the_cpu(value) if isinstance(value, torch.Tensor) else value for value in arguments], path)
    else:
        told = [_told_of(value) for value in arguments]
        lines, digest = ",\n".join(f"  {json.dumps(each)}" for each in told), digest_of(json.dumps(told))
        path.write_text(f'{{"format": {FORMAT}, "seed": {SEED}, "digest": "{digest}", "arguments": [\n{lines}\n]}}\n')
    return path


def is_edited(path: Path) -> bool:
    """Whether a file of sizes has other arguments than when it was written. Raises `UserError` for one that is none."""
    if path.suffix != ".json":
        return False
    try:
        told = json.loads(path.read_text())
        return told.get("digest") != digest_of(json.dumps(told["arguments"]))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        pass_on(error)
        raise UserError(f"has no inputs: {type(error).__name__}: {error}", location=str(path)) from None


def read_inputs(file: str) -> list[torch.Tensor | int]:
    """Contents of a file of either kind. Raises `UserError` for one that is none."""
    path = Path(file)
    if not path.is_file():
        raise UserError(f"there is no file '{file}'", location="--inputs")
    try:
        if path.suffix == ".json":
            return _made(json.loads(path.read_text()))
        values = torch.load(path, weights_only=True)
    except Exception as error:  # whatever is in the file
        hint = "a dump of torch.compile writes inputs.json or inputs.pt; a list of tensors and integers, saved by torch.save, is one too"
        said = next(iter(str(error).splitlines()), "")  # torch.load goes on for a page
        raise UserError(f"has no inputs: {type(error).__name__}: {said}", location=file, hint=hint) from error
    if not isinstance(values, list | tuple) or not all(map(_is_input, values)):
        hint = "tensors are dense, and in memory; integers have 64 bits"
        raise UserError("has something else than a list of tensors and integers", location=file, hint=hint)
    return [value.detach() if isinstance(value, torch.Tensor) else value for value in values]


def _is_input(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.layout == torch.strided and not value.is_meta
    return isinstance(value, int) and -(1 << 63) <= value < 1 << 63


def on_the_cpu(value: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, and no more memory than these span."""
    value = value.detach()
    if not value.numel():
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    if value.is_conj() or value.is_neg():  # what is in memory are other numbers
        value = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(value)
    flat = value.as_strided((extent(value.shape, value.stride()),), (1,))
    return flat.to("cpu", copy=True).as_strided(value.shape, value.stride())


def _told_of(value: torch.Tensor | int) -> Any:
    if not isinstance(value, torch.Tensor):
        return int(value)
    told: dict[str, Any] = {"dtype": str(value.dtype).removeprefix("torch."), "sizes": list(value.shape)}
    told["strides"] = list(value.stride())
    integers = not (value.dtype.is_floating_point or value.dtype.is_complex or value.dtype == torch.bool)
    if integers and value.numel():  # indices, which other integers may not be
        known = value.detach().cpu().to(torch.int64)
        told["range"] = [int(known.min()), int(known.max()) + 1]
    return told


def _made(told: Any) -> list[torch.Tensor | int]:
    if told["format"] != FORMAT:
        raise UserError("was written by another version of Bascule", hint="dump again")
    generator = torch.Generator().manual_seed(told["seed"])
    return [value if isinstance(value, int) else _random(value, generator) for value in told["arguments"]]


def _random(told: Any, generator: torch.Generator) -> torch.Tensor:
    dtype = getattr(torch, told["dtype"])
    values = random_tensor(told["sizes"], dtype, generator, told.get("range"))
    if 0 in told["sizes"]:
        return torch.empty_strided(told["sizes"], told["strides"], dtype=dtype)
    memory = torch.zeros(extent(told["sizes"], told["strides"]), dtype=dtype)
    return memory.as_strided(told["sizes"], told["strides"]).copy_(values)
