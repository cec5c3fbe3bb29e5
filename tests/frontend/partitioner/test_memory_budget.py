"""A training step keeps its memory budget, with the bits that it has without one; a budget that is not possible is refused with the least."""

import re
from time import perf_counter

import pytest
import torch
from bascule.frontend.partitioner import saved_program
from bascule.runtime import release_arenas

import bascule
from bascule.budget import partition
from bascule.errors import UserError
from bascule.options import make_options
from benchmarks.memory import peak_bytes

ROWS, WIDTH, LAYERS = 512, 64, 4
BESIDE = 512  # bytes that PyTorch makes beside what is compiled: the loss's own gradient


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = torch.nn.LayerNorm(WIDTH), torch.nn.Dropout(0.1)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.drop(self.down(torch.nn.functional.gelu(self.up(self.norm(x)))))


class Model(torch.nn.Sequential):
    def __init__(self):
        super().__init__(*(Layer() for _ in range(LAYERS)))

    def forward(self, x):
        return super().forward(x).square().mean()


class Run:
    """Some steps with a budget: the loss and the gradients of one, the bytes that two hold at most."""

    def __init__(self, budget=None, **options):
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.model, self.x = Model(), torch.randn(ROWS, WIDTH)
        given = {"on_error": "raise", "cache": False, **options} | ({} if budget is None else {"memory_budget": budget})
        self.compiled = torch.compile(self.model, backend="bascule", options=given)
        self.step()
        self.results = [self.step(), *(p.grad.clone() for p in self.model.parameters())]
        self.model.zero_grad(set_to_none=True)
        release_arenas()
        held = sum(each.numel() * each.itemsize for each in (self.x, *self.model.parameters()))
        self.peak = held + peak_bytes(lambda: (self.step(), self.step()))

    def step(self):
        torch.manual_seed(1)
        self.model.zero_grad(set_to_none=True)
        loss = self.compiled(self.x)
        loss.backward()
        return loss.detach()


@pytest.fixture(scope="module")
def without():
    return Run()


@pytest.mark.parametrize("part", [0.8, 0.6])
def test_a_part_of_the_peak_is_kept_with_the_same_bits(part, without):
    run = Run(part)
    assert run.peak <= part * without.peak + BESIDE
    assert all(map(torch.equal, run.results, without.results))


def test_the_least_is_named_and_possible(without):
    with pytest.raises(UserError, match=r"option 'memory_budget': a budget of 1.00 MiB cannot be kept") as raised:
        Run("1 MiB")
    least = int(re.search(r"\((\d+) bytes\) at least", str(raised.value))[1])
    run = Run(least)
    assert run.peak <= least + BESIDE < without.peak
    for x, y in zip(
        run.results, without.results, strict=True
    ):  # by chunks of rows: sums over rows are added up in another order
        torch.testing.assert_close(x, y, rtol=0, atol=2e-6 * y.abs().max().item())


def test_what_is_far_from_possible_is_refused_after_few_plans(monkeypatch):
    planned = []
    step_peak = partition.step_peak
    monkeypatch.setattr(partition, "step_peak", lambda *args: planned.append(step_peak(*args)) or planned[-1])
    with pytest.raises(UserError, match="cannot be kept") as raised:
        Run("1 MiB")
    assert len(planned) <= 4  # without chunks of rows and with; min-cut's, by the passes with a budget and without
    assert int(re.search(r"\((\d+) bytes\) at least", str(raised.value))[1]) == min(each.bytes for each in planned)


@pytest.mark.parametrize("part", [0.5, 0.95])
def test_no_more_is_named_than_a_step_needs_without_a_budget(part):
    """Of a step so small that what computes again holds more than it saves."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    x = torch.randn(8, 16)
    needed = bascule.memory(lambda x: model(x).sum(), x).steps[0].least
    step = torch.compile(lambda x: model(x).sum(), backend="bascule", options={"memory_budget": part})
    with pytest.raises(UserError, match=rf"this step needs .* \({needed} bytes\) at least"):
        step(x)


def test_min_cut_stays_where_it_keeps_the_budget(without):
    run = Run("1 GiB")
    assert run.peak <= without.peak
    assert all(map(torch.equal, run.results, without.results))


def test_explain_tells_of_it():
    graphs = bascule.explain(Model(), torch.randn(ROWS, WIDTH), options={"memory_budget": 0.7}).graphs
    told = [remark for graph in graphs for remark in graph.remarks if remark.pass_name == "memory-budget"]
    assert len(told) == 1
    assert re.search(
        r"a peak of .* within a budget of .* without one; \d+ calls computed again in the backward", str(told[0])
    )


def test_dropouts_of_the_other_kind():
    """Numbers of eager's generator are drawn once: the mask is saved."""
    torch.manual_seed(0)
    runs = [Run(budget, random="eager") for budget in (None, 0.6)]
    assert all(map(torch.equal, *(run.results for run in runs)))
    assert runs[1].peak <= 0.6 * runs[0].peak + BESIDE


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ("6 lb", "'6 lb' is no number of bytes"),
        ("6", "'6' is no number of bytes"),
        (1.5, "takes bytes as a whole number over 0, or a part over 0 and at most 1.0, got 1.5"),
        (0, "takes bytes as a whole number over 0, or a part over 0 and at most 1.0, got 0"),
        (-0.5, "got -0.5"),
        (float("nan"), "got nan"),
        (True, "takes bytes as a whole number over 0, or a part over 0 and at most 1.0, got True"),
        ([1], "takes bytes as a whole number over 0, or a part over 0 and at most 1.0, got [1]"),
    ],
)
def test_what_is_no_budget(budget, told):
    with pytest.raises(UserError, match=f"option 'memory_budget': .*{re.escape(told)}"):
        make_options(options={"memory_budget": budget})


def test_what_it_does_not_go_with():
    with pytest.raises(UserError, match="option 'memory_budget': does not go with 'tiers'"):
        make_options(options={"memory_budget": 0.5, "tiers": True})


def test_cuda_graphs_change_nothing_on_a_cpu(without):
    run = Run(0.8, cudagraphs=True)
    assert run.peak <= 0.8 * without.peak + BESIDE


@pytest.mark.parametrize(
    ("text", "count"),
    [("6 GiB", 6 << 30), ("512MiB", 512 << 20), ("1.5 GB", 1_500_000_000), ("100 B", 100), (" 2 kib ", 2048)],
)
def test_texts(text, count):
    assert make_options(options={"memory_budget": text}).memory_budget == count


@pytest.mark.parametrize("part", [0.8, 0.65])
def test_cuts_keep_a_budget_where_the_solver_finds_nothing(part, without, monkeypatch):
    """Its time may be over first, where a machine has much else to do."""
    monkeypatch.setattr(saved_program, "solve", lambda *_: None)
    run = Run(part)
    assert run.peak <= part * without.peak + BESIDE
    assert all(map(torch.equal, run.results, without.results))


def test_no_program_is_solved_again_once_it_is(monkeypatch):
    asked, theirs = list[tuple](), saved_program.solve

    def noted(costs, most, integral, rows, seconds):
        begun = perf_counter()
        found = theirs(costs, most, integral, rows, seconds)
        if perf_counter() - begun < seconds:
            asked.append((tuple(costs), tuple(rows.columns), tuple(rows.values), tuple(rows.upper)))
        return found

    with pytest.raises(UserError) as raised:
        Run(1024)
    least = int(re.search(r"\((\d+) bytes\) at least", str(raised.value))[1])
    monkeypatch.setattr(saved_program, "solve", noted)
    with pytest.raises(UserError):
        Run(int(0.97 * least))  # near enough to look closer
    assert len(asked) > 5
    assert len(asked) == len({*asked})
