"""Seeds of a dropout are moved to where a backward reads them: the host, or the GPU while it is recorded."""

from types import SimpleNamespace

import pytest
import torch
from bascule.runtime.modules.dropout_seeds import seeds_where_read

from bascule.compat.operators.dropout_seeds import READING, SEEDS, seeds_of


class Seed:
    def __init__(self, place):
        self.place = place
        self.is_cuda = place != "cpu"

    def to(self, place):
        return Seed(place)


def operator(name):
    return getattr(getattr(torch.ops.aten, name.split(".")[1]), name.split(".")[2])


@pytest.mark.parametrize("name", READING)
def test_an_operator_has_both(name):
    assert [operator(name)._schema.arguments[place].name for place in seeds_of(operator(name))] == [*SEEDS]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("made", ["cpu", "cuda:0"])
def test_they_are_where_they_are_read(made, recorded, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: recorded)
    parameters = [SimpleNamespace(name=name) for name in ("grad", "philox_seed", "philox_offset", "scale")]
    found = []

    def stand_in(*args, **kwargs):
        found.append((args, kwargs))
        return "gradients"

    stand_in._schema = SimpleNamespace(arguments=parameters)
    gradient, seeds = SimpleNamespace(device="cuda:0", is_cuda=True), [Seed(made), Seed(made)]
    assert seeds_where_read(stand_in)(gradient, *seeds, scale=0.5) == "gradients"
    (((first, *places), kwargs),) = found
    assert first is gradient and kwargs == {"scale": 0.5}
    assert [seed.place for seed in places] == ["cuda:0" if recorded else "cpu"] * 2
    assert (places == seeds) == ((made != "cpu") == recorded)
