"""`bascule-run` calls a match results whose elements are as near to double precision as rounding leaves them."""

import pytest
import torch
from bascule.dialect.interpreter import interpret, reference
from bascule.dialect.interpreter.numerics.precision import DOUBLE, widened

from bascule.pipelines import DEFAULT, STAGES
from bascule.tools.checking import Check, after

from .graphs import GRAPHS, block, imported, mixed

MIXED = (torch.ones(6, 5), torch.ones(4, 5, dtype=torch.bfloat16), torch.tensor([0, 5, 2, 2]))


def modules():
    yield pytest.param(block, id="block")
    for name, (function, *inputs) in GRAPHS.items():
        yield pytest.param(lambda f=function, i=inputs: imported(f, *i), id=name)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_default_pipeline_of_a_transformer_block_matches(dtype, seed):
    module = block(dtype)
    check, program = Check(module, seed=seed), after(module, "default")
    assert check.interpreted(program)[0].match
    assert check.compiled(program).match


@pytest.mark.parametrize("make", list(modules()))
def test_one_element_that_is_wrong_by_a_thousandth_is_a_mismatch(make):
    check = Check(make())
    for number, (precise, allowed) in enumerate(zip(check.reference.precise, check.reference.allowed)):
        # One of hundreds may come out near 0 and uncertain, by the order in which the processor's BLAS adds.
        certain = allowed <= 1e-3 * precise.abs() + 2 * torch.finfo(torch.float32).tiny
        assert (~certain).sum() <= certain.numel() // 100
        for index in map(tuple, certain.nonzero().tolist()):
            wrong = [x.clone() for x in check.reference.own]
            wrong[number][index] *= 1.001
            assert not check.reference.compare(wrong).match, index
    assert check.reference.compare(check.reference.own).match


def test_it_tells_of_how_many_elements_rounding_leaves_too_little():
    check = Check(imported(lambda x: (x + 1000) - 1000, torch.ones(8, 40)))
    precise, allowed = check.reference.precise[0], check.reference.allowed[0]
    missed = int((allowed > 0.001 * precise.abs()).sum())
    assert missed > 30
    assert f"result 0: {missed} of 320 elements are uncertain" in check.reference.unclear()[0]


@pytest.mark.parametrize("make", [block, lambda: imported(mixed, *MIXED)], ids=["block", "mixed"])
def test_in_double_every_stage_computes_the_same(make):
    module = make()
    inputs = Check(module).inputs
    names = [None if last is None else ",".join(DEFAULT[: DEFAULT.index(last) + 1]) for last in STAGES.values()][1:]
    stages = [interpret(after(module, n), [*map(widened, inputs)], None, DOUBLE) for n in names]
    for results in stages[1:]:
        for first, other in zip(stages[0], results, strict=True):
            torch.testing.assert_close(first, other, rtol=1e-9, atol=1e-9)


def test_mixed_dtypes_match_and_keep_theirs():
    module = imported(mixed, *MIXED)
    check = Check(module)
    dtypes = [x.dtype for x in check.results]
    assert dtypes == [torch.float32, torch.int64, torch.bfloat16, torch.int64, torch.bfloat16]
    assert check.compiled(after(module, "default")).match
    wrong = [x.clone() for x in check.reference.own]
    wrong[1][0] += 1
    (told,) = check.reference.compare(wrong).differences
    assert told.startswith("result 1: 1 of 4 elements differ, most at [0]")


def test_random_operators_draw_the_same_in_each_run():
    def noisy(x):
        return torch.bernoulli(torch.sigmoid(x)) + torch.randperm(len(x))[:, None]

    module = imported(noisy, torch.ones(16, 3))
    check = Check(module)
    assert check.reference.unclear() == ()
    assert check.interpreted(after(module, "default"))[0].match


def test_sums_in_another_order_match_and_one_that_leaves_out_an_element_does_not():
    function, x = (lambda x: x.sum(-1)), torch.ones(4, 1000)
    check = Check(imported(function, x))
    (given,) = check.inputs
    backwards = torch.stack([torch.tensor(sum(row.flip(0), torch.zeros(()))) for row in given])
    assert check.reference.compare([backwards, given]).match
    assert not check.reference.compare([given[:, 1:].sum(-1), given]).match


def test_inputs_stay_as_they_are_and_what_is_written_is_compared():
    def writes(x):
        x.mul_(1.5)
        return x + 1

    module = imported(writes, torch.ones(5))
    check = Check(module)
    before = [x.clone() for x in check.inputs]
    assert check.interpreted(after(module, "default"))[0].match
    assert all(map(torch.equal, before, check.inputs))
    assert torch.equal(check.reference.own[-1], before[0] * 1.5)
    assert len(reference(check.start, check.inputs).precise) == len(check.reference.own)


def test_in_double_bits_are_those_of_the_type():
    function = lambda x: (x * 2).view(torch.int32) & 0x7F800000  # noqa: E731  (the exponents)
    check = Check(imported(function, torch.ones(5, 4)))
    assert torch.equal(check.results[0], (check.inputs[0] * 2).view(torch.int32) & 0x7F800000)
    assert check.reference.precise[0].dtype == torch.int32
    assert torch.equal(check.reference.precise[0], check.results[0])
