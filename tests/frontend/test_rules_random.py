"""Random numbers: Philox's published words, distributions, streams and seeds."""

import math
from collections.abc import Callable

import pytest
import torch
from bascule.dialect.interpreter import interpret
from bascule.dialect.ir import builders, context
from bascule.dialect.mlir import func, ir
from bascule.dialect.passes import Pipeline, expand_random
from checking import aten, convert, run
from torch.testing import assert_close


def test_the_published_words_of_philox():
    """The known answers of philox4x32-10 that Random123 publishes."""
    known = {
        (0, 0, 0, 0, 0, 0): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        (0xFFFFFFFF,) * 6: (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0): (
            0xD16CFE09,
            0x94FDCCEB,
            0x5001E420,
            0x24126EA1,
        ),
    }
    for given, words in known.items():
        with context(), ir.Location.unknown():
            module = ir.Module.create()
            i32 = ir.IntegerType.get_signless(32)
            with ir.InsertionPoint(module.body):
                function = func.FuncOp("main", ([], [ir.RankedTensorType.get([], i32)] * 4))
            with ir.InsertionPoint(function.add_entry_block()):

                def word(number, given=given, i32=i32):
                    numbers = [ir.IntegerAttr.get(i32, n - (n >> 31 << 32)) for n in given]
                    values = [
                        ir.Operation.create("arith.constant", results=[i32], attributes={"value": n}).result
                        for n in numbers
                    ]
                    return expand_random.philox(values[:4], values[4:])[number]

                type_ = ir.RankedTensorType.get([], i32)
                func.ReturnOp([builders.compute(type_, [], lambda _, n=n: word(n)) for n in range(4)])
            results = interpret(module, [])
        assert tuple(int(r) & 0xFFFFFFFF for r in results) == words


def drawn(function: Callable, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """What `function` draws after a fixed seed, expanded or not: both are the same numbers."""
    module = convert(function, *inputs)
    torch.manual_seed(5)
    given = interpret(module, list(inputs))
    Pipeline.parse("expand-random,canonicalize,cse").run(module, verify=True)
    assert "bascule.random" not in str(module)
    torch.manual_seed(5)
    for a, b in zip(given, interpret(module, list(inputs)), strict=True):
        assert_close(a, b)
    return given


def test_distributions():
    x = torch.empty(200, 200)
    results = drawn(
        lambda x: (
            aten.rand.default([200, 200]),
            aten.randn.default([200, 200]),
            aten.uniform.default(x, -1.0, 3.0),
            aten.exponential.default(x, 2.0),
            aten.bernoulli.p(x, 0.3),
            aten.geometric.default(x, 0.25),
            aten.randint.low(-5, 5, [200, 200]),
            aten.randn.default([200, 200], dtype=torch.float64),
            aten.log_normal.default(x, 0.0, 0.5),
        ),
        x,
    )
    means = [0.5, 0.0, 1.0, 0.5, 0.3, 4.0, -0.5, 0.0, math.exp(0.125)]
    deviations = [12**-0.5, 1.0, 4 * 12**-0.5, 0.5, 0.21**0.5, 12**0.5, 99**0.5 / 12**0.5, 1.0, 0.6039]
    for value, mean, deviation in zip(results, means, deviations, strict=True):
        value = value.double()
        assert abs(value.mean() - mean) < 5 * deviation / 200
        assert abs(value.std() / deviation - 1) < 0.05
    assert results[0].min() >= 0 and results[0].max() < 1
    assert results[3].min() > 0 and results[5].min() == 1
    assert results[6].unique().tolist() == list(range(-5, 5))
    flat = [r.double().flatten() for r in (results[0], results[1], results[7])]
    assert abs(torch.corrcoef(torch.stack(flat)) - torch.eye(3)).max() < 0.02, "streams depend on each other"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_uniform_numbers_stay_below_one(dtype):
    (x,) = run(lambda: aten.rand.default([20000], dtype=dtype))
    assert x.max() < 1 and abs(x.double().mean() - 0.5) < 0.02


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout_keeps_by_its_mask(p):
    x = torch.randn(100, 100)
    out, mask = drawn(lambda x: aten.native_dropout.default(x, p, True), x)
    assert abs(mask.float().mean() - (1 - p)) < 0.02
    assert_close(out, x * mask / (1 - p) if p < 1 else torch.zeros_like(x))


def test_a_seed_repeats_a_run_and_runs_differ():
    module = convert(lambda: (aten.rand.default([8]), aten.rand.default([8])))
    torch.manual_seed(1)
    first, second = interpret(module, []), interpret(module, [])
    torch.manual_seed(1)
    again = interpret(module, [])
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], first[1]) and not torch.equal(first[0], second[0])
    assert str(module).count("call @aten.randint.low") == 1
