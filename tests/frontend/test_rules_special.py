"""The rules of special functions: in f32 they are those of f64, rounded."""

import pytest
import torch
from bascule.dialect.errors import UnsupportedError
from checking import aten, check, convert, run

SPECIAL = """
    lgamma digamma erfinv special_erfcx special_log_ndtr special_ndtri special_entr i0 special_i0e special_i1 special_i1e
    special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_spherical_bessel_j0
"""


@pytest.mark.parametrize("name", SPECIAL.split())
def test_special_functions_are_exact_to_one_unit_in_f32(name):
    operator = getattr(aten, name).default
    spread = torch.rand(2000, dtype=torch.float64)
    x = torch.cat([spread * 2 - 1, (spread - 0.5) * 40, torch.exp((spread - 0.5) * 80)]).float()
    (got,) = run(lambda x: operator(x), x)
    want = operator(x.double())
    finite = (
        want.isfinite() & (want.abs() < torch.finfo(torch.float32).max) & (want.abs() > torch.finfo(torch.float32).tiny)
    )
    assert torch.equal(got.isnan(), want.isnan())
    unit = torch.finfo(torch.float32).eps
    error = ((got.double() - want).abs() / (want.abs() * unit + (1e-14 if name == "lgamma" else 0)))[finite]
    assert error.max() <= 1.0


def test_polygamma():
    x = torch.rand(500, dtype=torch.float64) * 20 - 5
    check(lambda x: (aten.polygamma.default(0, x), aten.polygamma.default(1, x)), x, rtol=1e-9, atol=0)
    with pytest.raises(UnsupportedError, match="order above 1"):
        convert(lambda x: aten.polygamma.default(2, x), x)
