"""A graph's passes, from a file that was edited on."""

from dataclasses import replace

from ..dialect.contract.module import check_contract
from ..dialect.mlir import ir
from ..dialect.passes import Pipeline
from ..dialect.tools.parsing import parse
from ..errors import UserError
from ..reporting.compile_record import Record
from .contract import Contract
from .edits import OPTION, Edits


def run_from_edited(module: ir.Module, source: str, pipeline: Pipeline, edits: Edits, record: Record) -> ir.Module:
    """The module that `pipeline` leaves of the file that was edited; of `module` itself, the imported graph, where no IR was.

    The passes that had run before that file was written run on `module` again: what they leave tells what the caller of the graph relies on, and
    the file has to keep that. Raises `UserError` for a file that does not, or does not parse, and where the passes are others than in the dump.
    """
    verify = record.options.verify
    record.edits = edits.texts
    if edits.ir is None:
        record.dump_import(module, source)
        pipeline.run(module, verify=verify, observers=[record.observe])
        return module
    names = tuple(stage.name for stage in pipeline.stages)
    count = len(edits.passes)
    if names[:count] != edits.passes:
        raise UserError(
            f"was left by the passes {','.join(edits.passes)}, and those that run now are {','.join(names[:count])}",
            location=str(edits.ir),
            hint="replay with the options of the dump",
        )
    if count:
        record.dump_import(module, source)
        replace(pipeline, stages=pipeline.stages[: count - 1]).run(module, verify=verify, observers=[record.observe])
        replace(pipeline, stages=pipeline.stages[count - 1 : count]).run(module, verify=verify)
    edited = _edited(module, edits)
    if count:
        record.dump_module(edits.passes[-1], edited)
    else:
        record.dump_import(edited, source)
    replace(pipeline, stages=pipeline.stages[count:]).run(edited, verify=True, observers=[record.observe])
    return edited


def _edited(module: ir.Module, edits: Edits) -> ir.Module:
    """The IR of the file, whose graph keeps what the one of `module` promises."""
    place = str(edits.ir)
    with module.context:
        try:
            edited = parse(edits.ir.read_text() if edits.ir is not None else "", place, contract=False)
        except ir.MLIRError as error:
            raise UserError(
                f"the edited IR is not valid: {error}", location=place, hint=f"bascule-opt {place}"
            ) from None
    try:
        changes = Contract.of(module).changes(Contract.of(edited))
    except UserError as error:
        raise UserError(
            f"the edited IR has no graph to run: {error.message}", location=error.location or place
        ) from None
    if changes:
        told = "\n  ".join(changes)
        raise UserError(
            f"the edit changes what the caller of the graph relies on:\n  {told}",
            location=place,
            hint=f"{OPTION} takes edits inside of a graph; its arguments, its results, and what they share stay",
        )
    check_contract(edited)
    return edited
