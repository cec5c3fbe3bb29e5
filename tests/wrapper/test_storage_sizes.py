"""Inputs whose storage the program frees or gives back: what reads them runs while their memory is there."""

import pytest
import torch
from torch._dynamo import config


def freed(x, y):
    a = x.sin()
    x.untyped_storage().resize_(0)
    return a.cos(), a + y


def freed_beside_cuts(x, y):
    a = x.sin()
    n = y.sum().item()
    x.untyped_storage().resize_(0)
    return a.cos() * n, a + y


def freed_below_a_product(x, y):
    a = x.sin()
    x.untyped_storage().resize_(0)
    return a @ a, y.cos() @ y


def given_back(x, y):
    x.untyped_storage().resize_(64)
    x.copy_(y)
    return x.sin() + 1, y * 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [freed, freed_beside_cuts, freed_below_a_product, given_back])
@config.patch(capture_scalar_outputs=True)
def test_reads_run_while_the_memory_is_there(function, dynamic):
    compiled = torch.compile(
        function, backend="bascule", fullgraph=True, dynamic=dynamic, options={"on_error": "raise"}
    )
    for seed in range(2):
        results = []
        for called in (function, compiled):
            torch.manual_seed(seed)
            x, y = torch.randn(4, 4), torch.randn(4, 4)
            if function is given_back:
                x.untyped_storage().resize_(0)
            results.append([*called(x, y), x.untyped_storage().nbytes(), *([x] if function is given_back else [])])
        torch.testing.assert_close(results[1], results[0])
        assert results[1][2] == (64 if function is given_back else 0)
