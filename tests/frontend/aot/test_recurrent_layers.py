"""Recurrent layers that Dynamo captures (`allow_rnn`): results, and gradients whichever tensors want one."""

import pytest
import torch

import bascule
from tests.frontend.against_eager import check, leaf

LAYERS = {
    "lstm": lambda: torch.nn.LSTM(4, 6),
    "lstm in two layers, batch first": lambda: torch.nn.LSTM(4, 6, num_layers=2, batch_first=True),
    "lstm both ways without biases": lambda: torch.nn.LSTM(4, 6, bidirectional=True, bias=False),
    "lstm with projections": lambda: torch.nn.LSTM(4, 6, proj_size=3),
    "gru": lambda: torch.nn.GRU(4, 6),
    "rnn": lambda: torch.nn.RNN(4, 6),
}


@pytest.mark.parametrize("of", ["weights", "input", "both", "nothing"])
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers(name, of):
    torch.manual_seed(0)
    layer = LAYERS[name]()
    names, weights = zip(
        *((n, w.detach().clone().requires_grad_(of in ("weights", "both"))) for n, w in layer.named_parameters())
    )

    def call(x, *weights):
        return torch.func.functional_call(layer, dict(zip(names, weights)), (x,))

    inputs = [leaf(5, 3, 4), leaf(7, 2, 4)] if of in ("input", "both") else [torch.randn(5, 3, 4), torch.randn(7, 2, 4)]
    with torch._dynamo.config.patch(allow_rnn=True):
        check(call, *([x, *weights] for x in inputs), rtol=1e-4, atol=1e-5)


DROPPING = {
    "lstm": lambda: torch.nn.LSTM(4, 6, num_layers=3, dropout=0.4),
    "lstm both ways": lambda: torch.nn.LSTM(4, 6, num_layers=2, bidirectional=True, dropout=0.4, batch_first=True),
    "gru": lambda: torch.nn.GRU(4, 6, num_layers=3, dropout=0.4),
    "gru both ways": lambda: torch.nn.GRU(4, 6, num_layers=2, bidirectional=True, dropout=0.4),
    "rnn": lambda: torch.nn.RNN(4, 6, num_layers=2, dropout=0.4),
}


@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluated"])
@pytest.mark.parametrize("name", DROPPING)
def test_numbers_are_dropped_between_layers(name, training, packed):
    """The same as eager drops."""
    torch.manual_seed(0)
    layer = DROPPING[name]().train(training)
    x = torch.randn(5, 5, 4)
    if packed:
        x = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 4, 2, 2, 1]), layer.batch_first)

    def step(function):
        torch.manual_seed(3)
        out, _ = function(x)
        out = out.data if packed else out
        return out.detach(), torch.autograd.grad(out.square().sum(), [*layer.parameters()])

    torch._dynamo.reset()
    how = {"random": "eager", "on_error": "raise"}
    with torch._dynamo.config.patch(allow_rnn=True):
        compiled = torch.compile(layer, backend="bascule", options=how)
        torch.testing.assert_close(step(compiled), step(layer), rtol=1e-4, atol=1e-5)


def test_numbers_are_dropped_between_layers_of_an_exported_program(tmp_path):
    layer, x = torch.nn.GRU(4, 6, num_layers=2, dropout=0.4), torch.randn(5, 3, 4)
    program = torch.export.export(layer, (x,))
    path = tmp_path / "gru.bascule"
    bascule.aot_compile(program, path, options={"random": "eager"})
    loaded = bascule.aot_load(path)
    torch.manual_seed(3)
    got, _ = loaded(x)
    torch.manual_seed(3)
    torch.testing.assert_close(got, layer(x)[0])
