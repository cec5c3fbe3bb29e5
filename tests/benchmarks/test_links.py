"""Links do as is said of them: a fit finds what made the times of collectives, and `overlap-collectives` has times of that."""

import pytest
from bascule.dialect.collectives.calls import Start
from bascule.dialect.collectives.costs import Costs

from benchmarks.links import CALLS, fit

MEGABYTE = 1 << 20


@pytest.mark.parametrize("ranks", [2, 8])
def test_a_fit_finds_what_made_the_times(ranks):
    latency, bandwidth, passes = 3e-5, 2e11, 1.7
    rows = []
    for size in (1 << number for number in range(10, 30, 2)):
        one = (1 - 1 / ranks) * size / bandwidth
        rows.append(
            {"bytes": size, **{name: latency + one * (passes if name == "all_reduce" else 1) for name in CALLS}}
        )
    found = fit(rows, ranks)
    assert found == pytest.approx((latency, bandwidth, passes), rel=0.02)


@pytest.mark.parametrize(
    ("kind", "passes"), [("all_reduce", 1.7), ("reduce_scatter_tensor", 1.08), ("all_gather_into_tensor", 1.0)]
)
def test_a_collective_takes_the_parts_of_others(kind, passes):
    costs = Costs("h200", "nvlink", bandwidth=1e11)

    def seconds(ranks):
        name = f"_c10d_functional.{kind}.default"
        whole = 64 * MEGABYTE
        sent = whole if kind == "all_reduce" else whole // (ranks or 8)
        return costs.collective(Start(0, name, ("sum", "0"), "bf16", sent, whole, True, ranks)) - costs.latency

    assert seconds(1) == pytest.approx(0)
    assert seconds(2) == pytest.approx(passes * 32 * MEGABYTE / 1e11)
    assert seconds(None) == pytest.approx(passes * 64 * MEGABYTE / 1e11)
