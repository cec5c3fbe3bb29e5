"""A context for each test, and the kernels that it makes."""

from collections.abc import Callable, Iterator

import pytest
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir

from tests.dialect.analysis.small_kernels import module_of


@pytest.fixture(autouse=True)
def mlir_context() -> Iterator[ir.Context]:
    with context() as made:
        yield made


@pytest.fixture
def kernel(mlir_context) -> Callable[..., ir.Operation]:
    """`module_of`, but the kernel, whose module lives as long as the test."""
    modules = []

    def make(buffers: dict[str, str], ranges: dict[str, str], body: str) -> ir.Operation:
        modules.append(module_of(buffers, ranges, body))
        (function,) = functions(modules[-1])
        return kernel_op(function)

    return make
