"""Which samples of the operator database are compared in another way, or not run."""

import pytest
import torch

from tests.operators.check import Wrong, check, check_sample
from tests.operators.compilers import Compiled, Compiler
from tests.operators.exceptions import CRASHES, observe
from tests.operators.opinfo import DEVICE, Case, Sample, emptied, samples
from tests.operators.worker import compiler_for

ATTENTION = "nn_functional_scaled_dot_product_attention"
pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="of the CPU's operators")


def seen(name: str, dtype: torch.dtype = torch.float32, count: int = 3):
    return [observe(sample) for sample in samples(Case(name, dtype), count)]


def test_only_a_dropout_makes_attention_draw():
    found = samples(Case(ATTENTION, torch.float32), 8)
    dropouts = [sample.fill(*sample.tensors)[2].get("dropout_p", 0.0) for sample in found]
    assert [observe(sample).draws for sample in found] == [p > 0 for p in dropouts]
    assert {p > 0 for p in dropouts} == {False, True}


@pytest.mark.parametrize("name", ["rand_like", "nn_functional_dropout2d", "normal", "multinomial"])
def test_what_draws_is_compared_by_eagers_numbers(name):
    assert any(one.draws for one in seen(name))
    outcome = check(Case(name, torch.float32), compiler_for("backend", "auto"), 3)
    assert outcome.samples == 3 and not outcome.exempt


@pytest.mark.parametrize("name", ["empty_like", "new_empty", "empty_strided"])
def test_memory_that_nobody_has_written(name):
    assert not any(one.written[0].any() for one in seen(name))


@pytest.mark.parametrize("name", ["add", "ones_like", "nn_functional_pad_constant", "cat"])
def test_memory_that_is_written(name):
    for one in seen(name):
        assert all(mask.all() for mask in one.written) and not one.draws and not one.untraceable


@pytest.mark.parametrize("name", ["nonzero", "masked_select", "item", "equal", "to_sparse", "sparse_sampled_addmm"])
def test_what_runs_through_dynamo(name):
    assert all(one.untraceable for one in seen(name))


def test_an_index_depends_on_data_where_it_is_a_mask():
    x, mask, rows = torch.randn(4), torch.tensor([True, False, True, True]), torch.tensor([2, 0])

    def sample(*tensors):
        return Sample(lambda x, i: x[i], [*tensors], torch.Tensor.__getitem__, lambda *xs: (xs[0], xs[1:], {}))

    assert observe(sample(x, mask)).untraceable
    assert not observe(sample(x, rows)).untraceable


@pytest.mark.parametrize("exemption", CRASHES, ids=lambda exemption: exemption.reason)
def test_each_exemption_holds_for_a_sample(exemption):
    names = ["nn_functional_pdist", "_segment_reduce_offsets"]
    drawn = [
        s for name in names for sample in samples(Case(name, torch.float32), 16) for s in [sample, *emptied(sample)]
    ]
    assert 0 < sum(map(exemption.holds, drawn)) < len(drawn)


def test_only_what_needs_a_gpu_is_refused():
    """Eager's own refusal leaves a sample out: on a CPU, of the operators that are compiled for CUDA alone."""
    name = "jiterator_unary"
    outcome = check(Case(name, torch.float32), compiler_for("backend", "auto"), 3)
    assert not outcome.samples and all("CUDA" in reason for reason in outcome.exempt)


@pytest.mark.parametrize("name", [ATTENTION, "nn_functional_dropout", "add"])
def test_a_wrong_number_is_found(name):
    """A compiler whose results have one element that is wrong."""

    def wrong(gm, example_inputs, compiled):
        def run(*args):
            results = list(gm(*args))
            results[0] = results[0] + torch.zeros_like(results[0]).index_fill_(0, torch.tensor([0]), 0.5)
            return results

        return run

    sample = next(x for x in samples(Case(name, torch.float32), 3) if x.tensors[0].ndim)
    with pytest.raises(Wrong):
        check_sample(sample, Compiler(wrong, dynamo=False, drawing=wrong), Compiled(), observe(sample))
