"""Attributes that are left out, or of another kind than is read: of each op, function, argument and result of modules of every stage. Passes
take them, or refuse them at a place; no other exception is raised."""

from pathlib import Path

import pytest
from bascule.dialect import passes
from bascule.dialect.ir import context
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.passes import BUFFERS, EITHER, VALUES, Pipeline
from bascule.dialect.tools.parsing import chunks, parse

from bascule.errors import UserError
from bascule.pipelines import DEFAULT
from tests.dialect.attribute_texts import TEXTS

LIT = Path(__file__).parents[2] / "lit_tests"
UNREADABLE = "array<ui8: 1>"  # which MLIR's Python bindings have no class for: it stands in text alone
KINDS = (*TEXTS, UNREADABLE, "@f")
KEPT = (
    "sym_name",
    "function_type",
    "operandSegmentSizes",
    "sym_visibility",
    "overflowFlags",
)  # MLIR's parser dies without some
FORMED = ",".join(DEFAULT[1 : DEFAULT.index("choose-products")])
CUDA = FORMED.replace("schedule-kernels", "schedule-kernels{target=cuda}")
# file, number of its module, passes that make a stage of it, what its values are
MODULES = {
    "the torch stage": ("torch/torch-to-bascule-symbols.mlir", 0, "", ""),
    "symbols of views": ("torch/views.mlir", 1, "", ""),
    "the tensor stage": ("tensor/chunk-rows.mlir", 0, "", VALUES),
    "scatters": ("tensor/gather-scatters.mlir", 1, "", VALUES),
    "chunks": ("kernel/schedule-kernels-cuda.mlir", 3, ",".join(DEFAULT[1 : DEFAULT.index("form-kernels")]), VALUES),
    "products": ("tensor/expand-grouped-products.mlir", 0, "", VALUES),
    "collectives": ("tensor/bucket-collectives.mlir", 0, "", VALUES),
    "the kernel stage": ("tools/pretty.mlir", 0, FORMED, VALUES),
    "a kernel of a GPU": ("kernel/schedule-kernels-tf32.mlir", 0, CUDA, VALUES),
    "the program stage": ("program/plan-memory-symbols.mlir", 0, "", BUFFERS),
    "arguments that die": ("program/spare-arguments.mlir", 0, "spare-arguments", BUFFERS),
}
Site = tuple[int, str, int | None, str]  # number of the op, its attribute; of what argument or result, which


def module_of(name: str) -> str:
    file, number, made_by, _ = MODULES[name]
    text = [part for part, _ in chunks((LIT / file).read_text())][number]
    with context():
        module = parse(text)
        Pipeline.parse(made_by).run(module)
        return module.operation.get_asm()


def sites(text: str) -> list[Site]:
    """One of each kind."""
    found: dict[tuple, Site] = {}
    with context():
        module = parse(text)  # while it is there, so are its ops
        for number, op in enumerate(ops_in(module.operation)):
            for name in [name for name in op.attributes if name not in KEPT]:
                if name not in ("arg_attrs", "res_attrs"):
                    found.setdefault((op.name, name), (number, name, None, ""))
                    continue
                for at, told in enumerate(op.attributes[name]):
                    for entry in told:
                        found.setdefault((name, entry.name), (number, name, at, entry.name))
    return list(found.values())


def edited(text: str, site: Site, value: str | None) -> str | None:
    """`text` with another value there, or none; None for what does not verify."""
    number, name, at, key = site
    with context():
        module = ir.Module.parse(text)
        op = ops_in(module.operation)[number]
        attribute = None if value is None else ir.Attribute.parse(value.replace(UNREADABLE, '"unreadable"'))
        if at is not None:
            told = list(op.attributes[name])
            own = {entry.name: entry.attr for entry in told[at]} | {key: attribute}
            told[at] = ir.DictAttr.get({key: each for key, each in own.items() if each is not None})
            attribute = ir.ArrayAttr.get(told)
        if attribute is None:
            del op.attributes[name]
        else:
            op.attributes[name] = attribute
        return _parsed(module.operation.get_asm(print_generic_op_form=True).replace('"unreadable"', UNREADABLE))


def _parsed(text: str) -> str | None:
    try:
        parse(text)
    except (UserError, ir.MLIRError) as error:
        assert not isinstance(error, UserError) or error.location
        return None
    return text


def pipelines(stage: str) -> list[str]:
    """Each pass that takes a stage, and all that follow in the default pipeline."""
    if not stage:
        return [",".join(DEFAULT)]
    alone = [name for name in passes.own_names() if passes.find(name).takes in (stage, EITHER)]
    whole = DEFAULT[DEFAULT.index("separate-outputs") :] if stage == BUFFERS else DEFAULT[1:]
    return [*alone, ",".join(whole)]


def refused(text: str, pipeline: str) -> bool:
    with context():
        module = parse(text)
        try:
            Pipeline.parse(pipeline).run(module, verify=True)
        except UserError as error:
            assert error.location, error
            return True
    return False


@pytest.mark.parametrize("name", MODULES)
def test_an_attribute_is_taken_or_refused(name):
    text = module_of(name)
    tried = 0
    for site in sites(text):
        for value in (None, *KINDS):
            changed = edited(text, site, value)
            for pipeline in pipelines(MODULES[name][3]) if changed else ():
                tried += 1
                refused(changed, pipeline)
    assert tried
