"""The pretty form parses back to the module that it was printed of, at every stage, and its names hang on nothing that is elsewhere."""

import re
import time
from pathlib import Path

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes.pipeline import Stage
from bascule.dialect.printing.pretty import pretty
from hypothesis import given, settings

from bascule.options import Options
from bascule.pipelines import STAGES, up_to
from bascule.tools.graphs_at_stage import import_function, machine_of
from tests.properties.programs import programs
from tests.tools.graphs import GRAPHS, Block

TESTS = Path(__file__).parents[3] / "lit_tests"


def chunks(path: Path) -> list[str]:
    return re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE)


def check(module: ir.Module) -> str:
    """The pretty form, which parses to the same module."""
    text = pretty(module)
    assert not text.startswith("// This form"), text.partition("\n")[0]
    another = context()  # in the module's own the elements of constants would get other names
    another.allow_unregistered_dialects = module.context.allow_unregistered_dialects
    again = ir.Module.parse(text, another)
    assert str(again) == str(module)
    assert not re.search(r"%\d|^#(?!-})", text, re.MULTILINE), "a value has a number, or an attribute an alias"
    return text


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.mlir")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_modules_of_the_tests_parse_back(path):
    for chunk in chunks(path):
        ctx = context()
        ctx.allow_unregistered_dialects = True
        with ctx:
            try:
                module = ir.Module.parse(chunk)
            except ir.MLIRError:
                continue
            check(module)


@pytest.mark.parametrize("target, dynamic", [("cpu", True), ("sm_90", False)])
@pytest.mark.parametrize("name", [*GRAPHS, "training step"])
def test_imported_graphs_parse_back_at_each_stage(name, target, dynamic):
    function, *inputs = GRAPHS[name] if name in GRAPHS else (Block(), torch.randn(2, 8, 32, requires_grad=True))
    grad, seen = name not in GRAPHS, []

    def check_stage(when: str, stage: Stage, module: ir.Module) -> None:
        if when == "after" and stage.name in STAGES.values():
            seen.append(stage.name)
            check(module)

    modules = import_function(function, inputs, stage="torch", options=Options(), grad=grad, dynamic=dynamic)
    assert len(modules) == 1 + grad
    for module in modules:
        check(module)
        up_to("program", Options(), machine_of(target)).run(module, observers=[check_stage])
    assert seen == [*filter(None, STAGES.values())] * len(modules)


@settings(deadline=None)
@given(programs())
def test_random_programs_parse_back(text):
    with context():
        check(ir.Module.parse(text))


def graph(*operators: str) -> str:
    lines, last = [], "%x"
    for number, operator in enumerate(operators):
        lines += [
            f'%{number} = "bascule.compute"() ({{',
            "^bb0(%i: index):",
            f"  %e = tensor.extract {last}[%i] : tensor<4xf32>",
            f"  %f = math.{operator} %e : f32",
            f'  "bascule.yield"(%f) : (f32) -> () loc("aten.{operator}.default")',
            f'}}) {{ranges = affine_map<() -> (4)>}} : () -> tensor<4xf32> loc("aten.{operator}.default")',
        ]
        last = f"%{number}"
    body = "\n".join(lines)
    return f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\nreturn {last} : tensor<4xf32>\n}}"


def printed(*operators: str) -> list[str]:
    with context():
        return pretty(ir.Module.parse(graph(*operators))).split("\n")


def test_names_come_from_operators_and_stay_where_others_are_put_before():
    short, longer = printed("exp", "tanh", "exp"), printed("sin", "exp", "sin", "tanh", "sin", "exp")
    assert [line for line in short if "bascule.compute" in line] == [
        f'    {name} = "bascule.compute"() ({{' for name in ("%exp", "%tanh", "%exp_1")
    ]
    edited = {"%arg0", "%exp", "%sin"}
    apart = [line for line in short if not any(f"tensor.extract {name}[" in line for name in edited)]
    assert {*apart} <= {*longer}


def test_what_does_not_verify_says_so():
    with context() as ctx:
        module = ir.Module.parse(graph("exp"))
        op = module.body.operations[0].regions[0].blocks[0].operations[0].operation
        op.attributes["ranges"] = ir.AffineMapAttr.parse("affine_map<() -> (4, 4)>", ctx)
        assert pretty(module).startswith("// This form does not parse back: the module does not verify.\n")


def test_elements_of_constants_are_printed():
    elements = '{-# dialect_resources: { builtin: { numbers: "0x04000000010000000200000003000000" } } #-}'
    constant = "%0 = arith.constant dense_resource<numbers> : tensor<3xi32>"
    with context():
        text = pretty(ir.Module.parse(f"func.func @f() {{\n{constant}\nreturn\n}}\n{elements}"))
    assert 'numbers: "0x04000000010000000200000003000000"' in text and "does not parse back" not in text


def test_what_is_left_out_is_told():
    with context():
        module = ir.Module.parse(
            "func.func @f() -> tensor<3xi32> {%0 = arith.constant dense<[1, 2, 3]> : tensor<3xi32> return %0 : tensor<3xi32>}"
        )
        assert pretty(module, large_elements_limit=1).startswith("// This form does not parse back: ")
        assert pretty(module, large_elements_limit=3).startswith("module")


def test_time_is_linear_in_the_size():
    def seconds(count: int) -> float:
        with context():
            module = ir.Module.parse(graph(*["exp", "tanh"] * count))
            best = []
            for _ in range(3):
                start = time.process_time()
                pretty(module)
                best.append(time.process_time() - start)
            return min(best)

    assert seconds(1600) < 20 * seconds(200), "8 times as much"
