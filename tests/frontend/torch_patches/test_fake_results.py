"""Dropouts that drop nothing: what is written to the result is in the input."""

import pytest
import torch
import torch.nn.functional as F

DROPOUTS = {
    "of nothing": lambda x: F.dropout(x, 0.0),
    "not in training": lambda x: F.dropout(x, 0.5, training=False),
    "in place": lambda x: F.dropout(x, 0.0, inplace=True),
    "of no channels": lambda x: F.dropout1d(x, 0.0),
    "alpha": lambda x: F.alpha_dropout(x, 0.5, training=False),
    "a module": torch.nn.Dropout(0.5).eval(),
}


def lying(inputs, outputs):
    """Which of them lie in one place."""
    places = [x.data_ptr() for x in (*inputs, *outputs)]
    return [places.index(place) for place in places]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", DROPOUTS)
def test_input_and_result_are_as_eager_leaves_them(name, train):
    def function(x, w):
        y = x * w if train else x
        z = DROPOUTS[name](y)
        z[1:].mul_(3)
        return y + 1, z, DROPOUTS[name](w)

    x, w = torch.randn(3, 4), torch.randn(3, 4, requires_grad=train)
    ours, eager = ((x.clone(), w.detach().clone().requires_grad_(train)) for _ in range(2))
    found = torch.compile(function, backend="bascule", options={"on_error": "raise"})(*ours)
    wanted = function(*eager)
    torch.testing.assert_close((found, ours), (wanted, eager))
    assert lying(ours, found) == lying(eager, wanted)
    if train:
        gradients = (
            torch.autograd.grad((y.sin() + z).sum(), w)[0] for (y, z, _), (_, w) in ((found, ours), (wanted, eager))
        )
        torch.testing.assert_close(*gradients)


def test_places_shared_in_the_input_are_seen():
    def function(x):
        F.dropout(x, 0.5, training=False)[0].zero_()
        return x * 2

    storages = torch.randn(16), torch.randn(16)
    storages[1].copy_(storages[0])
    with pytest.warns(UserWarning, match="share places in memory"):
        found = torch.compile(function, backend="bascule")(storages[0].as_strided((4, 4), (1, 1)))
    torch.testing.assert_close((found, storages[0]), (function(storages[1].as_strided((4, 4), (1, 1))), storages[1]))
