"""Held weights of convolutions are laid out as the result is."""

import torch
from bascule.frontend.freezing.conv_weight_layout import lay_out_convolution_weights
from bascule.frontend.freezing.weight_inputs import held_tensor
from torch.nn import functional as F

from .held import held, same

LAST = torch.channels_last
X, W = torch.randn(2, 4, 9, 8), torch.randn(6, 4, 3, 3)


def weight_of(gm):
    (node,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)
    return held_tensor(gm, node.args[1])


def test_of_a_channels_last_input():
    x = X.to(memory_format=LAST)
    gm = held(F.conv2d, x, W)
    assert lay_out_convolution_weights(gm) == 1
    assert weight_of(gm).is_contiguous(memory_format=LAST) and not weight_of(gm).is_contiguous()
    same(gm, F.conv2d, x, W)


def test_what_lies_right_stays():
    for x, w in ((X, W), (X.to(memory_format=LAST), W.to(memory_format=LAST))):
        gm = held(F.conv2d, x, w)
        before = weight_of(gm)
        assert lay_out_convolution_weights(gm) == 0 and weight_of(gm) is before
