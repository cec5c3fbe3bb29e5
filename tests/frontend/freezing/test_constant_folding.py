"""Nodes that follow from held tensors alone are computed once; others, and those that would grow, stay."""

import torch
from bascule.frontend.freezing.constant_folding import fold_constants

from .held import calls, held, same

X, W = torch.randn(4, 8), torch.randn(8, 8)


def test_what_follows_from_weights_is_one_tensor():
    def function(x, w):
        return x @ (w * 2).sin().t()

    gm = held(function, X, W)
    assert fold_constants(gm) == 3 and calls(gm) == ["mm.default"]
    same(gm, function, X, W)


def test_what_an_input_is_part_of_stays():
    gm = held(lambda x, w: (x * 2) @ w, X, W)
    assert fold_constants(gm) == 0 and calls(gm) == ["mul.Tensor", "mm.default"]


def test_random_numbers_stay():
    gm = held(lambda x, w: x @ (w * torch.rand_like(w)), X, W)
    assert fold_constants(gm) == 0 and "mul.Tensor" in calls(gm)


def test_what_is_much_larger_than_what_it_is_made_of_stays():
    def function(x, w):
        return x @ (w.repeat(1, 4096))

    gm = held(function, X, W)
    fold_constants(gm)
    assert len(calls(gm)) > 1
    same(gm, function, X, W)


def test_results_stay_the_callers():
    def function(x, w):
        return x @ w, w * 2

    gm = held(function, X, W)
    assert fold_constants(gm) == 0 and "mul.Tensor" in calls(gm)
