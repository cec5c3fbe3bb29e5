"""Custom operators of every kind of schema: whole graphs and split ones, forward and backward, dynamic, in packages."""

import pytest
import torch

import bascule
from tests.databases.compare import Compile, Ran, Subject, check
from tests.databases.custom_schemas import SCHEMAS, Schema, program
from tests.operators.check import backward, compare, compare_metadata


def inputs(rows: int, *, gradients: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    made = [torch.randn(rows, 4, generator=generator) for _ in range(2)]
    return [x.requires_grad_(gradients) for x in made]


def subject_of(schema: Schema, *, split: bool) -> Subject:
    def run(compiled: Compile, dtype: torch.dtype | None) -> Ran:
        function, results, gradients = compiled(program(schema, split=split)), [], []
        for rows in (5, 7):
            given = inputs(rows, gradients=schema.differentiable)
            given = [x.detach().to(dtype or x.dtype).requires_grad_(x.requires_grad) for x in given]
            made = function(*given)
            results += made
            gradients += backward([y for y in made if y.requires_grad], given) if schema.differentiable else []
        return Ran(results, [], gradients)

    return run


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_as_in_eager(schema: Schema):
    check(subject_of(schema, split=False), dynamic=True)


@pytest.mark.parametrize("schema", SCHEMAS[::5], ids=str)
def test_in_a_graph_in_parts(schema: Schema):
    check(subject_of(schema, split=True), dynamic=True)


@pytest.mark.parametrize("schema", SCHEMAS[1::4], ids=str)
def test_in_a_package(tmp_path, schema: Schema):
    class Module(torch.nn.Module):
        def forward(self, x, y):
            return program(schema, split=False)(x, y)

    given = inputs(5, gradients=False)
    wanted = Module()(*given)
    path = tmp_path / "program.bascule"
    exported = torch.export.export(Module(), tuple(given), strict=False)
    try:
        exported.run_decompositions({})
    except RuntimeError as error:
        pytest.xfail(f"PyTorch does not decompose the program: {str(error).splitlines()[0]}")
    bascule.aot_compile(exported, path)
    got = bascule.aot_load(path)(*given)
    compare_metadata(wanted, got)
    compare("result", wanted, got, lambda: [None] * len(wanted))
