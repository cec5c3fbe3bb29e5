"""Products by oneDNN: every form of the operands, against f64, and which graphs take it."""

import itertools

import pytest
import torch
from bascule.lowering.cpu import onednn_multiplies_faster

import bascule
from bascule.pipelines import DEFAULT

ONEDNN = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch is built without oneDNN"
)
PIPELINE = ",".join(DEFAULT).replace("choose-products", "choose-products{onednn=true least=1}")


def matrix(rows: int, columns: int, form: str) -> torch.Tensor:
    """Random, row-major, transposed, or every second column of a wider one."""
    match form:
        case "rows":
            return torch.randn(rows, columns)
        case "columns":
            return torch.randn(columns, rows).t()
    return torch.randn(rows, 2 * columns)[:, ::2]


def compiled(function, **options):
    return torch.compile(function, backend="bascule", options={"on_error": "raise", "pipeline": PIPELINE}, **options)


@ONEDNN
@pytest.mark.parametrize("sizes", [(8, 1, 1), (9, 5, 1), (64, 1, 17), (33, 70, 129), (256, 128, 512)])
def test_products_of_every_layout_are_as_accurate_as_atens(sizes):
    torch._dynamo.reset()
    rows, inner, columns = sizes
    product = compiled(lambda x, y: x @ y, dynamic=False)
    with_row = compiled(lambda row, x, y: torch.addmm(row, x, y), dynamic=False)
    for x_form, y_form in itertools.product(["rows", "columns", "sparse"], repeat=2):
        x, y, row = matrix(rows, inner, x_form), matrix(inner, columns, y_form), torch.randn(columns)
        exact = x.double() @ y.double()
        for got, want in ((product(x, y), exact), (with_row(row, x, y), exact + row)):
            assert got.stride() == (columns, 1)
            torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5 * inner**0.5)


@ONEDNN
def test_one_compile_serves_every_number_of_rows():
    torch._dynamo.reset()
    y = torch.randn(128, 96)
    product = compiled(lambda x: x @ y)
    for rows in (40, 2, 300, 7):
        x = torch.randn(rows, 128)
        torch._dynamo.mark_dynamic(x, 0)
        with torch.compiler.set_stance("default" if rows == 40 else "fail_on_recompile"):
            got = product(x)
        torch.testing.assert_close(got, x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not onednn_multiplies_faster(), reason="the BLAS library is as fast on this processor")
def test_the_default_pipeline_takes_onednn_for_large_products_only():
    large, small = torch.randn(256, 256), torch.randn(16, 16)
    calls = {
        call.operator: call.calls for call in bascule.explain(lambda x, y: (x @ x, y @ y), large, small).graphs[0].aten
    }
    assert calls == {"mkldnn._linear_pointwise.default": 1, "aten.mm.default": 1}
