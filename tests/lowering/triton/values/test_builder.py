"""A builder remembers of a body what it would build again: the text of a kernel is the same without it."""

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline
from bascule.lowering.triton import ToTriton
from bascule.lowering.triton.values.builder import Builder
from torch.nn import functional as F

from tests.lowering.triton.check import program

FUNCTIONS = {
    "rows": lambda x: (F.softmax(x, -1), F.layer_norm(x, x.shape[-1:])),
    "columns": lambda x: (x.var(0), (x * x.sum(-1, keepdim=True)).amax(0)),
    "points": lambda x: torch.where(x > 0, F.gelu(x), x / (1 + x.exp())).to(torch.bfloat16),
    "places": lambda x: (x[:, x[0].long() % 7], x.cumsum(-1), F.pad(x, (3, 2))),
    "positions": lambda x: (x.argmax(-1), x.sort(-1).values[:, :3]),
}
# Neighbours whose windows overlap, under conditions, with what is computed of an element before it is multiplied.
NEIGHBOURS = """
func.func private @windows(%x: memref<8x64x64xbf16>, %w: memref<3x64xbf16>, %out: memref<8x64x64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%n: index, %i: index, %c: index):
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0 : index
    %high = arith.constant 64 : index
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %at = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%i, %k)
      %above = arith.cmpi sge, %at, %low : index
      %below = arith.cmpi slt, %at, %high : index
      %inside = arith.andi %above, %below : i1
      %read = scf.if %inside -> (f32) {
        %v = memref.load %x[%n, %at, %c] : memref<8x64x64xbf16>
        %wide = arith.extf %v : bf16 to f32
        %e = math.exp %wide : f32
        scf.yield %e : f32
      } else {
        scf.yield %zero : f32
      }
      %weight = memref.load %w[%k, %c] : memref<3x64xbf16>
      %by = arith.extf %weight : bf16 to f32
      %term = arith.mulf %read, %by : f32
      "bascule.yield"(%term) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (3)>} : () -> f32
    "bascule.store"(%sum, %out, %n, %i, %c) : (f32, memref<8x64x64xf32>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8, 64, 64)>} : () -> ()
  return
}
"""
SCHEDULED = Pipeline.parse("unroll-windows{target=cuda},schedule-kernels{target=cuda capability=90}")


def lowered(text, before=()):
    with context():
        module = ir.Module.parse(text)
        for pipeline in before:
            pipeline.run(module)
        Pipeline([ToTriton()]).run(module)
        return str(module)


def texts(text, monkeypatch, before=()):
    remembered = lowered(text, before)
    with monkeypatch.context() as patch:
        patch.setattr(Builder, "keep", lambda self, key, made, values: None)
        return remembered, lowered(text, before)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_are_the_same_without_it(name, monkeypatch):
    remembered, built = texts(str(program(FUNCTIONS[name], torch.randn(37, 300))), monkeypatch)
    assert remembered == built and "tt.func" in built


def test_windows_are_the_same_without_it_and_ask_for_it(monkeypatch):
    remembered, built = texts(NEIGHBOURS, monkeypatch, [SCHEDULED])
    assert remembered == built
    kept, asked = set(), []
    keep, found = Builder.keep, Builder.known

    def noted(self, key, made, values):
        kept.add(key)
        asked.append(None)  # it was not there
        keep(self, key, made, values)

    def known(self, key):
        if key in kept:
            asked.append(found(self, key))
        return found(self, key)

    monkeypatch.setattr(Builder, "keep", noted)
    monkeypatch.setattr(Builder, "known", known)
    lowered(NEIGHBOURS, [SCHEDULED])
    assert sum(each is not None for each in asked) > len(asked) // 4
