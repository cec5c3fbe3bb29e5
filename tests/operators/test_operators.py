"""A fixed core of PyTorch's operator database against eager, and a part of the rest that changes by the day.

`BASCULE_OPERATORS_PART=3/10` chooses the part, `1/1` runs all. For the whole table: `python -m tests.operators.report`.
"""

import os
from datetime import date

import pytest

from tests.operators.exceptions import (
    EAGER_CRASHES_EMPTY,
    NUMBERS_DIFFER,
    NUMBERS_DIFFER_EMPTY,
    SKIPPED,
    THROUGH_DYNAMO,
)
from tests.operators.opinfo import Case, cases, operators
from tests.operators.report import GOOD, Worker

PARTS = 10
# fmt: off
CORE = [
    "__getitem__", "add", "addmm", "all", "amax", "any", "arange", "argmax", "bitwise_and", "cat", "clamp",
    "constant_pad_nd", "cumsum", "diagonal", "div_floor_rounding", "exp", "expand", "eye", "fill", "flip", "full",
    "gather", "ge", "index_add", "index_put", "index_select", "isnan", "linspace", "log_softmax", "logical_not",
    "logsumexp", "masked_fill", "matmul", "max_reduction_with_dim", "mean", "min_binary", "mul",
    "native_layer_norm", "nn_functional_avg_pool2d", "nn_functional_batch_norm", "nn_functional_conv2d",
    "nn_functional_cross_entropy", "nn_functional_dropout", "nn_functional_embedding", "nn_functional_gelu",
    "nn_functional_group_norm", "nn_functional_interpolate_bilinear", "nn_functional_layer_norm",
    "nn_functional_max_pool2d", "nn_functional_pad_reflect", "nn_functional_relu", "nn_functional_rms_norm",
    "nn_functional_silu", "permute", "pow", "prod", "rand_like", "remainder", "reshape", "roll", "scatter_add",
    "scatter_reduce_amax", "select", "sigmoid", "slice", "slice_scatter", "softmax", "sort", "split", "sqrt",
    "squeeze", "std", "stack", "sub", "sum", "tanh", "to", "topk", "transpose", "tril", "true_divide", "unbind",
    "unfold", "unsqueeze", "var", "var_mean", "where",
]
# fmt: on


def chosen() -> list[str]:
    """The core, and every N-th of the other operators from the I-th."""
    text = os.environ.get("BASCULE_OPERATORS_PART") or f"{date.today().toordinal() % PARTS + 1}/{PARTS}"
    part, parts = map(int, text.split("/"))
    rest = [name for name in operators() if name not in CORE]
    return [*(name for name in CORE if name in operators()), *rest[part - 1 :: parts]]


@pytest.fixture(scope="module")
def worker():
    found = Worker("backend", samples=1)
    yield found
    found.close()


@pytest.mark.parametrize("case", [case for case in cases(chosen()) if case.operator not in SKIPPED], ids=str)
def test_operator_is_as_in_eager(case: Case, worker: Worker):
    outcome = worker.run(case)
    assert outcome["status"] in GOOD, outcome["message"]


@pytest.fixture(scope="module")
def emptied():
    found = Worker("backend", samples=1, empty=True)
    yield found
    found.close()


# Every second one: a process takes a second for each. All of them: `python -m tests.operators.report --empty`.
@pytest.mark.parametrize("operator", CORE[::2])
def test_operator_without_elements_is_as_in_eager(operator: str, emptied: Worker):
    outcome = emptied.run(cases([operator])[0])
    assert outcome["status"] in GOOD, outcome["message"]


def test_exceptions_name_operators_of_the_database():
    listed = {*NUMBERS_DIFFER, *THROUGH_DYNAMO, *SKIPPED, *CORE}
    listed |= {*EAGER_CRASHES_EMPTY, *NUMBERS_DIFFER_EMPTY}
    assert listed <= set(operators())
