"""Folds of which was decided are not asked again."""

import pytest
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline
from bascule.dialect.passes.tensor import collapse_domains

READS = {
    "flat": ("%m", "256", "tensor<256xf32>", "%x[%m]"),
    "rows": ("%i, %j", "4, 64", "tensor<4x64xf32>", "%x[%at]"),
    "more": ("%i, %j, %k", "2, 4, 32", "tensor<2x4x32xf32>", "%x[%at]"),
    "eights": ("%i, %j", "8, 32", "tensor<8x32xf32>", "%x[%at]"),
}
AT = {
    "flat": "",
    "rows": "%at = affine.apply affine_map<(d0, d1) -> (d0 * 64 + d1)>(%i, %j)",
    "more": "%at = affine.apply affine_map<(d0, d1, d2) -> (d0 * 128 + d1 * 32 + d2)>(%i, %j, %k)",
    "eights": "%at = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)>(%i, %j)",
}


def compute(kind: str, number: int) -> str:
    indices, ranges, type_, read = READS[kind]
    arguments = ", ".join(f"{index}: index" for index in indices.split(", "))
    return f"""
    %r{number} = "bascule.compute"() ({{
    ^bb0({arguments}):
      {AT[kind]}
      %a = tensor.extract {read} : tensor<256xf32>
      "bascule.yield"(%a) : (f32) -> ()
    }}) {{ranges = affine_map<() -> ({ranges})>}} : () -> {type_}"""


def after(body: str) -> str:
    with context(), ir.Location.unknown():
        module = ir.Module.parse(
            f"func.func @main(%x: tensor<256xf32>) attributes {{bascule.graph}} {{{body}\n  return\n}}"
        )
        Pipeline.parse("builtin.module(collapse-domains)").run(module)
        return str(module)


@pytest.mark.parametrize(
    ("kinds", "looks"),
    [
        (["flat"] * 3, 0),
        (["flat", "rows", "rows"], 3),  # one round
        (["flat", "rows"] * 8, 16),
    ],
)
def test_a_compute_is_looked_at_once_where_one_round_decides(kinds, looks, monkeypatch):
    looked = []

    class Walker(collapse_domains.Walker):
        def __init__(self, *given):
            looked.append(self)
            super().__init__(*given)

    monkeypatch.setattr(collapse_domains, "Walker", Walker)
    left = after("".join(compute(kind, number) for number, kind in enumerate(kinds)))
    assert len(looked) == looks
    assert "(4, 64)" not in left


def test_a_fold_of_a_fold_takes_another_round():
    left = after("".join(compute(kind, number) for number, kind in enumerate(["flat", "more", "eights"])))
    assert not any(sizes in left for sizes in ("(2, 4, 32)", "(8, 32)"))
