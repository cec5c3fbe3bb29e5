"""Recurrent layers that Dynamo captures (`allow_rnn`): results, and gradients whichever tensors want one."""

import pytest
import torch

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
