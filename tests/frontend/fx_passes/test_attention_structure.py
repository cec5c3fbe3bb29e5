"""Attentions by hand in inference graphs: their products are marked, and become one kernel."""

import pytest
import torch
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.fx.fused_products import FUSED_PRODUCT
from bascule.frontend.fx_passes import attention_structure
from bascule.frontend.fx_passes.attention_structure import mark_attention_products
from torch.fx.experimental.proxy_tensor import make_fx

import bascule
from tests.frontend.partitioner.test_attention_statistics import NOT, TAKEN, inputs


def marked(function, leaves, devices=("cpu",)):
    with torch.no_grad():
        gm = make_fx(function, decomposition_table(), tracing_mode="fake")(*leaves)
        found = mark_attention_products(gm.graph, devices)
    return found, [node for node in gm.graph.nodes if node.meta.get(FUSED_PRODUCT)]


@pytest.mark.parametrize("name", TAKEN)
def test_both_products_are_marked(name):
    found, nodes = marked(TAKEN[name], inputs())
    assert found == 1 and [node.target for node in nodes] == [torch.ops.aten.bmm.default] * 2


@pytest.mark.parametrize("name", NOT)
def test_what_is_left_alone(name):
    assert marked(NOT[name], inputs()) == (0, [])


def test_only_on_the_devices_and_of_16_bits():
    assert marked(TAKEN["plain"], inputs(), ("cuda",)) == (0, [])
    assert marked(TAKEN["plain"], inputs(torch.float64)) == (0, [])
    assert marked(TAKEN["plain"], inputs(torch.float32)) == (0, [])


def test_f32_where_it_is_taken(monkeypatch):
    monkeypatch.setattr(attention_structure, "BY_HAND", (*attention_structure.NARROW, torch.float32))
    assert marked(TAKEN["plain"], inputs(torch.float64)) == (0, [])
    assert marked(TAKEN["plain"], inputs(torch.float32))[0] == 1


@pytest.mark.parametrize("few", [(True, True, True), (False, False, True), (True, False, False)], ids=str)
def test_f32_of_which_some_is_widened_stays_calls(few, monkeypatch):
    """It is one product of 16 bits, or none of a kernel's."""
    monkeypatch.setattr(attention_structure, "BY_HAND", (*attention_structure.NARROW, torch.float32))

    def function(q, k, v, *others):
        return TAKEN["plain"](*(x.bfloat16().float() if narrow else x for x, narrow in zip((q, k, v), few)), *others)

    assert marked(function, inputs(torch.float32)) == (0, [])


def test_other_products_stay_calls():
    """The product that makes the queries is a call of the library; the attention is one kernel."""

    def function(x, w, k, v):
        return torch.softmax((x @ w) @ k.transpose(-1, -2), -1) @ v

    q, k, v, *_ = inputs()
    w = torch.eye(16).bfloat16()
    options = {"on_error": "raise", "target": "interpret"}
    compiled = torch.compile(function, backend="bascule", options=options, dynamic=False)
    before = bascule.counters().get("kernels", {}).get("launches", 0)
    with torch.no_grad():
        found = compiled(q, w, k, v)
        wanted = function(*(x.double() for x in (q, w, k, v)))
    assert bascule.counters()["kernels"]["launches"] - before == 1
    torch.testing.assert_close(found.double(), wanted, rtol=0.02, atol=0.05)
