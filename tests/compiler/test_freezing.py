"""The option `freezing`: weights as constants, what is folded into them, and what must not be."""

import threading
import warnings
from copy import deepcopy

import pytest
import torch
from bascule.frontend.freezing.conv_folding import fold_into_convolutions
from bascule.frontend.freezing.weight_inputs import with_constants
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import bascule
from bascule.errors import FreezingWarning
from bascule.reporting.counters import counters, reset_counters

aten = torch.ops.aten
OPTIONS = {"freezing": True, "on_error": "raise"}


def frozen(function, **kwargs):
    torch.compiler.reset()
    reset_counters()
    return torch.compile(function, backend="bascule", options=OPTIONS, **kwargs)


def normalized(channels):
    """A batch norm that has seen data."""
    norm = nn.BatchNorm2d(channels)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.3, 3)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), normalized(8)
        self.second, self.other = nn.Conv2d(8, 8, 3, padding=1, groups=2), normalized(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        return self.head((torch.relu(self.other(self.second(y))) + y).mean((2, 3)))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@torch.no_grad()
def test_batch_norms_become_weights_of_convolutions():
    module, x = Network().eval(), torch.randn(2, 3, 8, 8)
    told = bascule.explain(module, x, options=OPTIONS)
    (graph,) = told.graphs
    operators = {call.operator for call in graph.aten}
    assert operators == {"aten.convolution.default", "aten.addmm.default"}
    sources = " ".join(str(kernel) for kernel in graph.kernels)
    assert "rsqrt" not in sources and "sub" not in sources and "mul" not in sources
    compiled = frozen(module)
    torch.testing.assert_close(compiled(x).double(), deepcopy(module).double()(x.double()), rtol=1e-5, atol=1e-5)
    assert counters()["freezing"]["folded into convolutions"] == 8


@torch.no_grad()
def test_transposes_and_casts_of_weights_are_done_once():
    module, x = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8)), torch.randn(4, 16)
    with torch.autocast("cpu", torch.bfloat16):
        compiled = frozen(module)
        torch.testing.assert_close(compiled(x), module(x), rtol=2e-2, atol=2e-2)
        told = bascule.explain(module, x, options=OPTIONS).graphs[0]
        plain = bascule.explain(module, x).graphs[0]
    assert counters()["freezing"]["constants folded"] >= 6, "two transposes, four casts"
    assert len(told.kernels) < len(plain.kernels)


@torch.no_grad()
def test_modules_that_share_code_have_their_own_constants():
    def apply(layer, x):
        return layer(x).relu()

    compiled = frozen(apply)
    layers, x = [nn.Linear(8, 8) for _ in range(3)], torch.randn(4, 8)
    for layer in [*layers, *layers]:
        torch.testing.assert_close(compiled(layer, x), apply(layer, x))


@torch.no_grad()
def test_more_sets_of_weights_than_are_kept():
    def apply(layer, x):
        return layer(x)

    compiled = frozen(apply)
    layers, x = [nn.Linear(4, 4) for _ in range(10)], torch.randn(2, 4)
    with pytest.warns(FreezingWarning, match="more than 8 sets of weights"):
        for layer in layers:
            torch.testing.assert_close(compiled(layer, x), layer(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FreezingWarning)
        for layer in reversed(layers):
            torch.testing.assert_close(compiled(layer, x), layer(x))


@torch.no_grad()
def test_a_weight_that_is_replaced_is_seen():
    module, x = nn.Linear(4, 4), torch.randn(2, 4)
    compiled = frozen(module)
    torch.testing.assert_close(compiled(x), module(x))
    module.weight = nn.Parameter(torch.randn(4, 4))
    torch.testing.assert_close(compiled(x), module(x))


@torch.no_grad()
def test_a_weight_that_was_folded_keeps_its_value():
    module, x = Network().eval(), torch.randn(2, 3, 8, 8)
    compiled = frozen(module)
    before = compiled(x)
    module.norm.weight.mul_(2)
    assert not torch.allclose(module(x), before)
    torch.testing.assert_close(compiled(x), before)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(4))
        self.register_buffer("scale", torch.randn(4))
        self.plain = torch.randn(4)

    def forward(self, x):
        self.calls += 1
        return x * self.scale + self.calls + self.plain


@torch.no_grad()
def test_buffers_that_are_written_and_tensors_that_are_no_weights_stay_inputs():
    module = Counting()
    compiled, reference, x = frozen(module), deepcopy(module), torch.randn(4)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), reference(x))
        module.plain.add_(1), reference.plain.add_(1)
    assert torch.equal(module.calls, torch.full((4,), 3.0))


@torch.no_grad()
def test_tensors_marked_as_staying_in_place_are_no_weights():
    cache = torch.randn(4)
    torch._dynamo.mark_static_address(cache)
    compiled = frozen(lambda x, cache: x + cache)
    x = torch.randn(4)
    torch.testing.assert_close(compiled(x, cache), x + cache)
    cache.add_(1)
    torch.testing.assert_close(compiled(x, cache), x + cache)


@torch.no_grad()
def test_tensors_that_the_graph_holds_stay_beside_frozen_weights():
    linear = nn.Linear(4, 4)

    def function(x):
        return linear(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])

    call = torch.compile(function, backend="bascule", options={"freezing": True, "on_error": "raise"})
    for _ in range(2):
        x = torch.randn(3, 4)
        torch.testing.assert_close(call(x), function(x))


@torch.no_grad()
def test_a_batch_norm_in_training_mode():
    module, x = Network().train(), torch.randn(4, 3, 8, 8)
    reference = deepcopy(module)
    compiled = frozen(module)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), reference(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.norm.running_var, reference.norm.running_var)


def test_training_is_not_frozen_and_says_so():
    module, x = nn.Linear(4, 4), torch.randn(2, 4)
    reference = deepcopy(module)
    compiled = frozen(module)
    with pytest.warns(FreezingWarning, match=r"it computes gradients: call it under torch.no_grad\(\)"):
        compiled(x).square().sum().backward()
    reference(x).square().sum().backward()
    torch.testing.assert_close(module.weight.grad, reference.weight.grad)
    assert counters()["freezing"] == {"not frozen: it computes gradients": 1}


class Outputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(4))

    def forward(self, x):
        return self.bias, self.weight.t(), self.weight * 2, (self.weight * 2).t(), x @ self.weight + self.bias


@torch.no_grad()
def test_outputs_made_of_weights_are_the_callers():
    module = Outputs()
    compiled, x = frozen(module), torch.randn(2, 3)
    want = [y.clone() for y in module(x)]
    for _ in range(3):
        bias, turned, doubled, again, _ = got = compiled(x)
        torch.testing.assert_close(list(got), want)
        assert bias is module.bias and turned.data_ptr() == module.weight.data_ptr()
        doubled.zero_(), again.zero_()


@torch.no_grad()
def test_dynamic_sizes():
    module = Network().eval()
    compiled = frozen(module, dynamic=True)
    for n, size in ((2, 8), (3, 8), (5, 12)):
        x = torch.randn(n, 3, size, size)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_threads_that_call_it_first():
    module, x, results = Network().eval(), torch.randn(2, 3, 8, 8), []
    compiled, want = frozen(module), module(x)

    def work():
        with torch.no_grad():
            results.append(compiled(x))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        torch.testing.assert_close(result, want, rtol=1e-4, atol=1e-5)


def test_compile_fx_inner_does_not_know_weights():
    gm = make_fx(lambda x: (x + 1,))(torch.randn(3))
    with pytest.raises(bascule.UserError, match="option 'freezing'"):
        bascule.compile_fx_inner(gm, [torch.randn(3)], is_inference=True, options={"freezing": True})


# Folding into convolutions, by itself.


def folded(function, x, *weights):
    """How many operators were folded, and what the graph computes."""
    gm = with_constants(make_fx(function, tracing_mode="fake")(x, *weights), dict(enumerate(weights, 1)))
    number = fold_into_convolutions(gm)
    return number, gm(x)


def per_channel(n, dims=3, dtype=torch.float32):
    return torch.randn(n, *[1] * (dims - 1), dtype=dtype) + 2


X, W, B = (torch.randn(s, generator=torch.Generator().manual_seed(1)) for s in ((2, 4, 8, 8), (6, 4, 3, 3), (6,)))
C, D = per_channel(6), per_channel(6)
FOLDED = {
    "all": (4, lambda x, w, b, c, d: (aten.conv2d(x, w, b) - c) * d / c + 3.0, (W, B, C, D)),
    "no bias": (2, lambda x, w, c: c * aten.conv2d(x, w) + c, (W, C)),
    "one for all": (2, lambda x, w, c: aten.conv2d(x, w) * c + 1, (W, torch.randn(1, 1, 1, 1))),
    "a read channel": (1, lambda x, w, c, d: (aten.conv2d(x, w) * c).relu() * d, (W, C, D)),
    "groups": (1, lambda x, w, c: aten.conv2d(x, w, None, [2, 2], [1, 1], [1, 1], 2) * c, (torch.randn(6, 2, 3, 3), C)),
    "no chain": (0, lambda x, w, b: aten.conv2d(x, w, b).relu(), (W, B)),
    "read twice": (0, lambda x, w, c: (y := aten.conv2d(x, w)) * c + y, (W, C)),
    "an output": (0, lambda x, w, c: ((y := aten.conv2d(x, w)), y * c), (W, C)),
    "a row": (0, lambda x, w, r: aten.conv2d(x, w) * r, (W, torch.randn(6))),
    "an image": (0, lambda x, w, i: aten.conv2d(x, w) + i, (W, torch.randn(6, 6, 6))),
    "a batch": (0, lambda x, w, n: aten.conv2d(x, w) + n, (W, torch.randn(2, 6, 1, 1))),
    "subtracted from": (0, lambda x, w, c: c - aten.conv2d(x, w), (W, C)),
    "divides": (0, lambda x, w, c: c / aten.conv2d(x, w), (W, C)),
    "alpha": (0, lambda x, w, c: aten.add(aten.conv2d(x, w), c, alpha=2), (W, C)),
    "grows": (0, lambda x, w, c: aten.conv2d(x, w) + c, (torch.randn(1, 4, 3, 3), C)),
    "a wider dtype": (0, lambda x, w, c: aten.conv2d(x, w) * c, (W, C.double())),
    "transposed": (0, lambda x, w, c: aten.conv_transpose2d(x, w) * c, (torch.randn(4, 6, 3, 3), C)),
    "not held": (0, lambda x, w, c: aten.conv2d(x, w) * (c + x[0, 0, 0, 0]), (W, C)),
}


@pytest.mark.parametrize("case", FOLDED)
def test_what_is_folded_into_a_convolution(case):
    number, function, weights = FOLDED[case]
    got = folded(function, X, *weights)
    assert got[0] == number
    torch.testing.assert_close(got[1], function(X, *weights), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_dtypes_of_folded_convolutions(dtype):
    x, w, c = X.to(dtype), W.to(dtype), C.to(dtype)
    number, got = folded(lambda x, w, c: aten.conv2d(x, w) * c, x, w, c)
    assert number == (dtype == torch.float64)
    torch.testing.assert_close(got, aten.conv2d(x, w) * c)


@pytest.mark.parametrize("dims", [1, 3])
def test_convolutions_of_other_dimensions(dims):
    conv = (aten.conv1d, None, aten.conv3d)[dims - 1]
    x, w, c = torch.randn(2, 4, *[6] * dims), torch.randn(5, 4, *[3] * dims), per_channel(5, dims + 1)
    number, got = folded(lambda x, w, c: conv(x, w) * c, x, w, c)
    assert number == 1
    torch.testing.assert_close(got, conv(x, w) * c, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_weights_of_channels_last_convolutions_are_laid_out_once():
    module, x = Network().eval(), torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    compiled = frozen(module)
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    assert counters()["freezing"]["weights of convolutions laid out"] == 2


def test_inductors_setting_counts_where_the_option_is_not_given():
    module, x = nn.Linear(6, 5).eval(), torch.randn(3, 6)
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        for options, wanted in (({}, 1), ({"freezing": False}, 0)):
            torch.compiler.reset()
            reset_counters()
            call = torch.compile(module, backend="bascule", options={"on_error": "raise", **options})
            torch.testing.assert_close(call(x), module(x))
            assert bool(counters()["freezing"]) == bool(wanted)
