"""`bascule.aot_compile`: an exported program becomes one file that runs without a compiler (`runtime/packages/exported_program.py`)."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from torch.export import ExportedProgram

from bascule.export.effect_tokens import unlift_tokens
from bascule.frontend.aot.patches_in_force import export_patches
from bascule.frontend.fx.custom_operators import custom_operators
from bascule.runtime.kernels.processor import instruction_sets
from bascule.runtime.memory.tensor_serialization import bytes_of, told_of
from bascule.runtime.packages.container import pack
from bascule.runtime.packages.exported_program import FORMAT

from ..aliasing.storage_offset_guard import places_of, traced_place
from ..aliasing.untracked_writes import unfollowed
from ..compat.tensors.pytree import treespec_dumps
from ..compiler.decompositions import decompositions_for
from ..compiler.fx_passes import fx_pipeline
from ..dialect.interrupts import pass_on
from ..errors import UserError
from ..options import PARTITIONER, PASSES, Options, make_options
from ..user_paths import user_path
from .aliasing import aliases_of
from .interface import frozen_weights, interface_of
from .package_writer import PackageWriter, packaged
from .size_guards import nonempty, sizes_of


def aot_compile(
    program: ExportedProgram,
    path: str | os.PathLike,
    *,
    weights: str = "inside",
    options: Mapping[str, Any] | None = None,
) -> None:
    """Compiles `program` (of `torch.export.export`) for the device of its tensors, and writes one package to `path`.

    `weights`: "inside", the package holds the values of parameters and buffers; "reference", it holds their names, dtypes and sizes, and
    `aot_load` is given the values (what is in no state dict, constants and buffers that are not persistent, is inside all the same). Sizes
    that were exported as dynamic stay so; buffers and inputs that the program writes are written at each call, and results that are views of
    such, or of weights, share their memory. `options` are those of `torch.compile`; with `freezing`, weights that the program does not write
    cannot be changed later. A package is for this machine's processor, or for GPUs of the architecture of this one, under the same number.
    Raises `UnsupportedError` for a program that calls what only this process knows, or writes elements that share memory, and `UserError` for
    other arguments, options, and those that no package follows. A file at `path` stays as it is until the program is compiled; of a link, the
    file that it leads to is written.
    """
    place = _place(path)
    checked = _checked(program, weights, options)
    exported, program = program, _decomposed(program, checked)
    tensors = {**program.state_dict, **program.constants}
    interface = interface_of(program)
    passes, gm, frozen = fx_pipeline("program", checked), program.graph_module, list[str]()
    if checked.freezing:
        gm, frozen = frozen_weights(gm, interface, tensors, passes)
    passes.run("checks", gm)
    placeholders = gm.graph.find_nodes(op="placeholder")
    for number in places_of(gm.graph, exported=True):
        interface.inputs[number]["begins"] = traced_place(placeholders[number])
    writer = PackageWriter()
    graph = writer.graph(packaged(gm, interface.values, checked))
    used = {name: tensors[name] for name in interface.weights.values()}
    inside = {name: value for name, value in used.items() if weights == "inside" or name not in program.state_dict}
    sizes = sizes_of(program)
    sizes["guards"] = sorted({*sizes["guards"], *nonempty(exported, sizes["symbols"])})
    aliases = iter(aliases_of(exported, sizes["symbols"], used))
    description = {
        "format": FORMAT,
        "graph": graph,
        "operators": custom_operators(gm),
        "inputs": interface.required(),
        "outputs": [told or {"lies": next(aliases)} for told in interface.outputs],
        **sizes,
        "in_spec": _structure(program.call_spec.in_spec),
        "out_spec": _structure(program.call_spec.out_spec),
        "weights": {name: told_of(value) for name, value in used.items()},
        "unused": sorted(set(program.state_dict) - set(used) - set(frozen)),
        "frozen": sorted(frozen),
        **_machine(writer.devices),
    }
    blobs = {**writer.blobs, **{f"weights/{name}": bytes_of(value) for name, value in inside.items()}}
    _write(place, pack(description, blobs))


def _decomposed(program: ExportedProgram, options: Options) -> ExportedProgram:
    """As it is compiled: of operators of ATen that have rules, without tokens among its inputs and outputs."""
    write = unfollowed(program.graph_module, ())
    if write is not None:
        raise write.error()
    with export_patches():
        program = program.run_decompositions(decompositions_for(options))
    unlift_tokens(program)
    return program


def _write(place: Path, content: bytes) -> None:
    """The file is whole, or as it was."""
    unfinished = place.with_name(f".{place.name}.{uuid4().hex}")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, place)
    finally:
        unfinished.unlink(missing_ok=True)


def _structure(spec: Any) -> str:
    """How arguments or results are nested, as text."""
    try:
        return treespec_dumps(spec)
    except NotImplementedError as reason:
        hint = "give it one where it is registered: torch.export.register_dataclass(C, serialized_type_name='module.C')"
        raise UserError(str(reason).splitlines()[0], location="parameter 'program'", hint=hint) from reason


def _machine(devices: Collection[torch.device]) -> dict[str, Any]:
    """The requirements of graphs on `devices` on a machine."""
    gpus = [device for device in devices if device.type == "cuda"]
    on_cpu = any(device.type == "cpu" for device in devices)
    told: dict[str, Any] = {"processor": sorted(instruction_sets()) if on_cpu else [], "capabilities": {}}
    if gpus:
        from bascule.runtime.kernels.cuda_driver import capability

        told["capabilities"] = {str(device): capability(device.index) for device in gpus}
    return told


def _place(path: str | os.PathLike) -> Path:
    """The file that a package is written to, by its own name: who writes to a link means what it leads to, which is there or is made."""
    named = user_path(path, "parameter 'path'")
    try:
        place = Path(named).resolve()
        loop = place.is_symlink()
    except (OSError, RuntimeError) as error:  # as versions of Python tell of links in a circle
        pass_on(error)
        loop = True
    if loop:
        raise UserError(f"'{path}' leads nowhere", location="parameter 'path'")
    if place.exists() and not place.is_file():
        raise UserError(f"'{place}' is {'a directory' if place.is_dir() else 'no file'}", location="parameter 'path'")
    if not place.parent.is_dir():
        raise UserError(f"there is no directory '{place.parent}'", location="parameter 'path'")
    return place


# Options about calls through Dynamo, about PyTorch's graphs, and about measuring.
_UNFOLLOWED = ("cudagraphs", "max_autotune", "profiler_mark_wrapper_call", PARTITIONER, *PASSES)


def _checked(program: Any, weights: str, options: Mapping[str, Any] | None) -> Options:
    """The options, if the arguments go together."""
    if not isinstance(program, ExportedProgram):
        hint = "torch.export.export(model, inputs) makes an ExportedProgram"
        raise UserError(f"is a {type(program).__name__}", location="parameter 'program'", hint=hint)
    if weights not in ("inside", "reference"):
        raise UserError(
            f"has no value {weights!r}", location="parameter 'weights'", hint="known: 'inside', 'reference'"
        )
    checked = make_options(None, options)
    for name in _UNFOLLOWED:
        if getattr(checked, name):
            raise UserError("is not followed by packages", location=f"option '{name}'")
    if checked.freezing and weights == "reference":
        raise UserError(
            "needs the values of weights, which a package by reference does not have", location="option 'freezing'"
        )
    return checked
