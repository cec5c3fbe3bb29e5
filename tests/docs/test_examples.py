"""The examples of docs/dialect.md are valid IR, print as what they are, and run."""

import re
from pathlib import Path

import pytest
import torch
from bascule.dialect.interpreter import interpret, random_inputs
from bascule.dialect.ir import Bascule, context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline

TEXT = (Path(__file__).parents[2] / "docs" / "dialect.md").read_text()
EXAMPLES = re.findall(r"^```mlir\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def name_of(example: str) -> str:
    return re.findall(r"func\.func (?:private )?@([\w.]+)\(", example)[-1]


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_an_example_is_what_it_says(example):
    with context():
        module = ir.Module.parse(example)
        printed = str(module)
        assert str(ir.Module.parse(printed)) == printed
        inputs = random_inputs(module, name_of(example))
        results = interpret(module, [torch.clone(x) if isinstance(x, torch.Tensor) else x for x in inputs])
        Pipeline.parse("simplify-indexing,canonicalize,cse").run(module, verify=True)
        again = interpret(module, [torch.clone(x) if isinstance(x, torch.Tensor) else x for x in inputs])
    assert all(torch.equal(a, b) for a, b in zip(results, again, strict=True))


def test_every_operation_is_in_an_example():
    used = "".join(EXAMPLES)
    assert not [cls.OPERATION_NAME for cls in Bascule.operations if f'"{cls.OPERATION_NAME}"' not in used]


def test_examples_compute_what_their_names_say():
    with context():
        modules = {name_of(example): ir.Module.parse(example) for example in EXAMPLES}
        x = torch.rand(4, 8) + 0.5  # its sums are not near zero
        assert torch.equal(interpret(modules["twice_transposed"], [x])[0], 2 * x.t())
        assert torch.equal(interpret(modules["largest_of_rows"], [4, x])[0], x.amax(0))
        torch.testing.assert_close(interpret(modules["cumsum"], [x])[0], x.cumsum(1))
        torch.testing.assert_close(interpret(modules["normalized"], [x])[0], x / x.sum(1, keepdim=True))
        torch.testing.assert_close(interpret(modules["sums"], [x])[0], x.sum(1))
        assert torch.equal(interpret(modules["transposed"], [x])[0], x.t())
