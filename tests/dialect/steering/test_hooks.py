"""Hooks of a plug-in: each decision is the plug-in's where it answers, the numbers stay, and an answer that is none is refused by name."""

from functools import partial

import pytest
import torch
from bascule.dialect.steering.hooks import Hooks
from bascule.dialect.steering.schedule_changes import changed

from bascule.entry.backend import compile_dynamo_graph
from bascule.errors import UserError


def softmax(x):
    return torch.softmax(x * 2, -1) + 1


def explained(f, *inputs, hooks=None, **options):
    """The record of the only graph of `f`, which computes what eager does."""
    torch._dynamo.reset()
    given, records = {"hooks": hooks, "cache": False, "on_error": "raise", **options}, []
    backend = partial(compile_dynamo_graph, options=given, on_record=records.append)
    torch.testing.assert_close(torch.compile(f, backend=backend)(*inputs), f(*inputs))
    (record,) = records
    return record


class Apart(Hooks):
    """Nothing fuses."""

    def __init__(self):
        self.asked = []

    def may_fuse(self, fusion):
        self.asked.append(fusion)
        return False


def test_nothing_fuses_where_the_plug_in_says_no():
    x, hooks = torch.randn(64, 128), Apart()
    together, apart = explained(softmax, x), explained(softmax, x, hooks=hooks)
    assert len(together.summary.kernels) == 1
    assert len(apart.summary.kernels) > 3
    assert any("the hooks Apart keep them apart" in remark.reason for remark in apart.summary.remarks)
    assert {f.asked_by for f in hooks.asked} == {"form-kernels", "inline-producers"}
    assert all(f.saved_bytes > 0 and f.ops > 1 for f in hooks.asked if f.default)


def test_what_does_not_pay_by_default_fuses_where_the_plug_in_says_so():
    """Few long rows: kernels of their own keep more processors busy."""

    class Together(Hooks):
        reasons = set()

        def may_fuse(self, fusion):
            self.reasons.add(fusion.reason)
            return True

    def rows(x):
        return x - x.sum(-1, keepdim=True)

    x = torch.randn(2, 1 << 16)
    assert len(explained(rows, x).summary.kernels) > len(explained(rows, x, hooks=Together()).summary.kernels)
    assert any(reason.startswith("rows to run in parallel: ") for reason in Together.reasons)


def test_what_would_be_wrong_is_not_asked():
    """A transposed reader of a sum has other rows: whatever the plug-in says, the numbers stay."""

    class Yes(Hooks):
        def may_fuse(self, fusion):
            return True

    def mixed(x):
        y = torch.softmax(x, 0)
        return y.t() @ y, y.t() - y.sum(0)[:, None], torch.cumsum(y, 1)

    explained(mixed, torch.randn(48, 40), hooks=Yes())


def at_the_end(x, y):
    return x.sin(), y.reshape(-1)[:30].cos()


def in_between(x, y):
    return torch.mv(y, x.sin()[:10]), torch.mv(y, x.cos()[3:13])


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("two, asking", [(at_the_end, "form-kernels"), (in_between, "join-launches")])
def test_launches_of_a_gpu_join_as_the_plug_in_says(joined, two, asking):
    class Launches(Hooks):
        def may_fuse(self, fusion):
            return joined if fusion.asked_by in (asking, "join-launches") else None

    graph = explained(two, torch.randn(33), torch.randn(10, 10), hooks=Launches(), target="interpret")
    both = {"aten.sin.default", "aten.cos.default"}
    assert joined == any(both <= {*kernel.operators} for kernel in graph.summary.kernels)


def test_a_schedule_is_the_plug_ins():
    class Lanes(Hooks):
        seen = []

        def schedule(self, scheduling):
            self.seen.append(scheduling)
            return changed(scheduling.default, domain={"vector": -1, "blocked": -1, "lanes": 1, "block": 1, "grain": 5})

    graph = explained(lambda x: x.sin() + 1, torch.randn(4096), hooks=Lanes())
    (first, *_) = Lanes.seen
    assert (first.points, first.target, first.bytes) == (4096, "cpu", 2 * 4 * 4096) and first.ops > 2
    assert "grain = 5 : i64" in str(graph.module)


def test_an_order_is_the_plug_ins():
    class Backwards(Hooks):
        peaks = None

        def order(self, ordering):
            self.peaks = ordering.peak_bytes, ordering.written_bytes
            left, order = set(range(len(ordering.ops))), []
            while left:
                order.append(max(n for n in left if not ordering.after[n] & left))
                left.remove(order[-1])
            return order

    def f(x, w):
        return x @ w, (w @ x).sin(), w.exp() @ w

    hooks, given = Backwards(), (torch.randn(32, 32), torch.randn(32, 32))
    orders = [str(explained(f, *given, hooks=h).module).split("func.func @main")[1] for h in (None, hooks)]
    assert orders[0] != orders[1] and hooks.peaks[0] <= hooks.peaks[1]


WRONG = {
    "may_fuse": ("yes", "Wrong.may_fuse answers 'yes', and not True, False or None"),
    "schedule": ({}, "Wrong.schedule answers {} for @"),
    "order": ([0, 0], "Wrong.order answers [0, 0], in which not each of"),
}


@pytest.mark.parametrize("method", WRONG)
def test_an_answer_that_is_none_is_refused_by_name(method):
    answer, message = WRONG[method]
    wrong = type("Wrong", (Hooks,), {method: lambda self, question: answer})()
    with pytest.raises(UserError) as caught:
        explained(softmax, torch.randn(8, 8), hooks=wrong)
    assert message in str(caught.value)


def test_an_order_that_breaks_a_dependence_is_refused_with_its_line():
    class Wrong(Hooks):
        def order(self, ordering):
            return range(len(ordering.ops) - 1, -1, -1)

    with pytest.raises(
        UserError, match=r"test_hooks\.py:\d+:\d+: the hook Wrong\.order puts op \d+ before op \d+, which it needs"
    ):
        explained(lambda x: (x @ x).sin() @ x, torch.randn(8, 8), hooks=Wrong())


def test_a_schedule_of_unknown_keys_is_refused():
    class Wrong(Hooks):
        def schedule(self, scheduling):
            return changed(scheduling.default, lane=4)

    with pytest.raises(UserError, match=r"Wrong\.schedule gives @.* a schedule that has the unknown key 'lane'"):
        explained(softmax, torch.randn(8, 8), hooks=Wrong())


def test_a_hook_that_raises_is_told_with_its_line():
    class Wrong(Hooks):
        def may_fuse(self, fusion):
            raise KeyError("of a hook")

    with pytest.raises(UserError, match=r"test_hooks\.py:\d+: the hook Wrong\.may_fuse raised KeyError: 'of a hook'"):
        explained(softmax, torch.randn(8, 8), hooks=Wrong())


def test_what_are_no_hooks_is_refused():
    with pytest.raises(UserError, match=r"option 'hooks': takes .*Hooks"):
        explained(softmax, torch.randn(8, 8), hooks=object())
