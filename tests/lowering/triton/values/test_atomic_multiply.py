"""Operations for which no GPU has an instruction: products by atomics (a loop of compare and swap), whole powers of integers (a loop over
bits)."""

import pytest
import torch

from tests.lowering.triton.check import check, cubins, lowered, program

INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]
WIDE = [torch.float32, torch.float64, torch.int32, torch.int64]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def products(x, index, source):
    return torch.scatter_reduce(x, 0, index, source, "prod")


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Many sources at one place, in one program and in several; zeros of both signs, and a NaN."""
    x, source = (torch.randint(-3, 4, (n,)).to(dtype) for n in (9, 400))
    index = torch.randint(0, 9, (400,))
    index[:40], source[::2] = 4, 1
    if dtype.is_floating_point:
        source *= torch.rand(400).to(dtype) + 0.5
        source[index == 2], x[3] = 1, torch.nan
        x[2] = -0.0
    return x, index, source


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_atomic_products(dtype):
    check(products, *operands(dtype), tolerance={"rtol": 1e-5, "atol": 1e-30})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool], ids=str)
def test_atomic_products_by_way_of_another_type(dtype):
    check(products, *(x.to(dtype) if k != 1 else x for k, x in enumerate(operands(torch.float32))))


def test_atomic_products_of_one_point_and_of_programs_in_part():
    check(products, torch.full([1], 5.0), torch.zeros(1, dtype=torch.int64), torch.full([1], -3.0))
    x, index, source = operands(torch.float32)
    (kernel,) = [k for k in lowered(program(products, x, index[:77], source[:77], tile=32)).values() if "cas" in k.ttir]
    assert "scf.while" in kernel.ttir
    check(products, x, index[:77], source[:77], tile=32)
    check(lambda x, i, s: torch.where(s.sum() > 1e9, x, products(x, i, s)), x, index, source)


def test_atomic_products_compile():
    for dtype in WIDE:
        assert all(cubins(products, *operands(dtype)))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_whole_powers(dtype):
    x = torch.tensor([0, 1, -1, 2, -2, 3, -5, 7, 11, 127]).to(dtype)
    exponents = torch.tensor([0, 1, 2, 3, 5, 7, 31, 62, 63, 100]).to(dtype)
    check(lambda x, n: x.reshape(-1, 1).pow(n), x, exponents)


def test_whole_powers_compile():
    assert all(cubins(lambda x, n: x.pow(n), torch.arange(100), torch.arange(100)))
