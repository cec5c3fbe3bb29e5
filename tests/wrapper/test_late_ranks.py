"""A rank that compiles for longer than the others wait, or fails to, does not hang them: they learn which collective it was, and where it is."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from bascule.runtime.modules import collective_errors, rank_states

from bascule.compat.tensors.process_groups import default_store
from tests.generators.ranks import end_ranks, on_ranks
from tests.wrapper import faulty_ranks

SECONDS = 2.0  # that a rank waits for another one
OPTIONS = {"on_error": "raise"}


@pytest.fixture(autouse=True)
def ranks():
    yield
    end_ranks()  # a group in which a rank was late is of no more use


def told(error):
    """The text of an error with its notes, and those of what it came of."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def late(rank, group, how):
    """The error of each rank: the last one compiles too long, or fails to."""
    torch._dynamo.reset()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=SECONDS), group)
    store = default_store()

    def function(x, y):
        return fc.all_reduce(x * 2, "sum", group) + fc.all_gather_tensor(y.sin(), 0, group).sum()

    def hold(graph):
        if rank == 1 and how == "compiles":
            store.wait(["waited"], timedelta(seconds=60))
        if rank == 1 and how == "fails":
            raise ValueError("a pass that fails")

    x = torch.ones(4)
    compiled = torch.compile(function, backend="bascule", options={**OPTIONS, "pre_grad_custom_pass": hold})
    if rank == 0 and how == "fails":
        store.wait(["failed"], timedelta(seconds=60))
    try:
        compiled(x, x)
    except Exception as error:
        store.set("failed" if rank else "waited", "")
        store.wait(["waited"], timedelta(seconds=60))  # it does something else, and is not gone
        return told(error)
    return ""


@pytest.mark.parametrize("how", ["compiles", "fails"])
def test_who_waits_learns_where_the_other_is(how):
    first, second = on_ranks(2, late, how)
    assert "in the collective all_" in first and "of the process group '" in first
    assert "rank 0 (this one): failed in all_" in first
    assert "in the operator called at" in first and "test_late_ranks.py" in first
    state = {"compiles": "rank 1: began to compile graph", "fails": "rank 1: failed to compile graph"}[how]
    assert state in first
    if how == "fails":
        assert "a pass that fails" in first and "a pass that fails" in second
    else:
        assert "in the collective all_" in second and "rank 0: failed in all_" in second


def apart(rank, group):
    """One rank goes another way than the other, and meets it in another collective."""
    torch._dynamo.reset()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=SECONDS), group)
    functions = (
        lambda x: fc.reduce_scatter_tensor(x, "sum", 0, group) + 1,
        lambda x: fc.broadcast(x, 0, group) + 1,
    )
    compiled = torch.compile(functions[rank], backend="bascule", options=OPTIONS)
    try:
        compiled(torch.ones(1000))
    except RuntimeError as error:
        return told(error)
    return ""


def test_collectives_that_do_not_match_are_both_named():
    for text in filter(None, on_ranks(2, apart)):
        assert "failed in reduce_scatter_tensor" in text or "failed in broadcast" in text
        assert "rank 0" in text and "rank 1" in text


NAMESPACE = {
    name: getattr(torch.ops._c10d_functional, name).default
    for name in (
        "wait_tensor",
        "all_reduce",
        "all_reduce_",
        "all_reduce_coalesced_",
        "all_gather_into_tensor_coalesced",
    )
} | {"mul": torch.ops.aten.mul.Tensor}


@pytest.mark.parametrize(
    ("lines", "about"),
    [
        (["b = all_reduce(a, 'sum', '3')"], "all_reduce of the process group '3'"),
        (["b = all_reduce(a, 'sum', '3')", "wait_tensor(b)"], "all_reduce of the process group '3'"),
        (["b = all_reduce(a, 'sum', '1')", "b = all_reduce(b, 'sum', '2')", "c = wait_tensor(b)"], "group '2'"),
        (
            ["c, d = all_gather_into_tensor_coalesced([a, b], 2, '0')", "e = d", "d = None", "f = wait_tensor(e)"],
            "all_gather_into_tensor_coalesced of the process group '0'",
        ),
        (
            ["all_reduce_(a, 'sum', '1')", "all_reduce_(b, 'sum', '2')", "wait_tensor(a)"],
            "all_reduce of the process group '1'",
        ),
        (
            ["a = mul(c, 2)", "all_reduce_coalesced_([b, a], 'sum', '1')", "wait_tensor(b)", "wait_tensor(a)"],
            "group '1'",
        ),
        (["b = mul(a, 2)"], None),
        (["b = wait_tensor(a)"], None),
        (["b = all_reduce("], None),
    ],
)
def test_the_collective_of_a_line(lines, about):
    note = collective_errors.ranks_note(lines, len(lines), NAMESPACE)
    assert note is None if about is None else about in note


def test_one_process_tells_nothing(monkeypatch):
    monkeypatch.setattr(rank_states, "tell", None)
    with rank_states.compiling("graph0"):
        pass
    assert torch.compile(torch.sin, backend="bascule", options=OPTIONS)(torch.zeros(2)).sum() == 0


def test_a_process_that_is_killed_is_told_of():
    faulty_ranks.check("killed", "cpu")
