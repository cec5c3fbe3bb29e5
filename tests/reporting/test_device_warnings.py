"""The warnings about TF32 and bf16, with a device that is only said to be there."""

import warnings

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from bascule.reporting import device_warnings
from bascule.reporting.device_warnings import F32_PRODUCTS, subjects_of, warn_about

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


@pytest.fixture(autouse=True)
def fresh():
    device_warnings._tf32.cache_clear()
    device_warnings._bf16.cache_clear()


def told(monkeypatch, gm, device, capability):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            warn_about(subjects_of(gm, device), device)
    return [str(one.message) for one in caught]


def product(dtype):
    x = torch.ones(3, 3, dtype=dtype)
    return make_fx(lambda x: (x @ x,), tracing_mode="fake")(x)


def test_tf32_is_off(monkeypatch):
    (text,) = told(monkeypatch, product(torch.float32), GPU, (9, 0))
    assert "TensorFloat32" in text


@pytest.mark.parametrize(
    ("dtype", "device", "capability"),
    [(torch.bfloat16, GPU, (9, 0)), (torch.float32, CPU, (9, 0)), (torch.float32, GPU, (7, 5))],
)
def test_nothing_to_say(monkeypatch, dtype, device, capability):
    assert told(monkeypatch, product(dtype), device, capability) == []


def test_tf32_is_on(monkeypatch):
    monkeypatch.setattr(device_warnings, "allows_tf32", lambda: True)
    assert told(monkeypatch, product(torch.float32), GPU, (9, 0)) == []


def test_bf16_is_not_there(monkeypatch):
    (text,) = told(monkeypatch, product(torch.bfloat16), GPU, (7, 5))
    assert text.startswith("a GPU does not support bfloat16")


def test_a_process_that_loads_a_trace_is_warned_too(tmp_path, monkeypatch):
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("bascule.compiler.compile_graph.subjects_of", lambda gm, device: (F32_PRODUCTS,))
    told = []
    for module in ("bascule.compiler.compile_graph", "bascule.cache.trace_entry"):
        monkeypatch.setattr(f"{module}.warn_about", lambda *about, module=module: told.append((module, *about)))
    for _ in range(2):
        torch._dynamo.reset()
        torch.compile(lambda x: x @ x, backend="bascule", options={"on_error": "raise"})(torch.ones(3, 3))
    assert told == [
        ("bascule.compiler.compile_graph", (F32_PRODUCTS,), CPU),
        ("bascule.cache.trace_entry", [F32_PRODUCTS], CPU),
    ]
