"""PyTorch's operator database against eager: of an operator of the core one dtype, of the others a fixed part.

`make test-all` runs all of it; `BASCULE_OPERATORS_PART=3/10` the third of ten parts. For a table: `python -m tests.operators.report`.
"""

from random import Random
from zlib import crc32

import pytest

from tests.operators.opinfo import SAMPLES, Case, cases, operators
from tests.operators.report import GOOD, Worker
from tests.parts import asked

SEED = 0
# One part of so many of what the core has not.
PARTS = 40
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


def chosen() -> list[Case]:
    """The cases of `BASCULE_OPERATORS_PART`; without it one of each operator of the core, and a part of the others. Always the same ones."""
    if shard := asked("OPERATORS"):
        part, parts = shard
        return [case for case in cases() if place(case, parts) == part - 1]
    core = [Random(f"{SEED} {name}").choice(found) for name in CORE if (found := cases([name]))]
    return [*core, *(case for case in cases() if case.operator not in CORE and place(case, PARTS) == SEED)]


def place(case: Case, parts: int) -> int:
    """The part that a case is in, whatever other operators there are."""
    return crc32(f"{SEED} {case}".encode()) % parts


@pytest.fixture(scope="module")
def worker():
    found = Worker("backend", samples=SAMPLES)
    yield found
    found.close()


@pytest.mark.parametrize("case", chosen(), ids=str)
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


def test_the_core_names_operators_of_the_database():
    assert set(CORE) <= set(operators())


def test_every_case_is_in_one_part():
    found = [case for part in range(PARTS) for case in cases() if place(case, PARTS) == part]
    assert sorted(map(str, found)) == sorted(map(str, cases()))
