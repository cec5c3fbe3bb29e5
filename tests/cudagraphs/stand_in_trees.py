"""CUDA graphs without a GPU: what stands in for PyTorch's trees of them, and functions whose CPU tensors pass for ones on a GPU (the fixture
`on_cpu`)."""

from collections import Counter

import torch

from bascule.cudagraphs import capture_plan, cudagraphify, unsafe_operators


class Trees:
    """Runs what it is to record: a first call as warm-up, a second as a recording; `again` records at each. `copies`: from the second call on
    the function is given copies of what is not static, as a recording has them: each begins its storage."""

    def __init__(self):
        self.made, self.now, self.held, self.again, self.told, self.reserved = [], False, 0, False, [], []
        self.copies = False

    def record(self, call, what):
        self.made.append(what)
        calls = 0

        def run(args):
            nonlocal calls
            calls += 1
            self.now = calls == 2 or (self.again and calls > 1)
            if self.copies and calls > 1:
                args[:] = [x if n in what.static else _copied(x) for n, x in enumerate(args)]
            try:
                return call(args)
            finally:
                self.now = False

        return run

    def capturing(self):
        return self.now

    def held_bytes(self, device):
        return self.held

    def reserve(self, device, size):
        assert not self.now
        self.reserved.append(size)

    def total_bytes(self, device):
        return 1000

    def unavailable(self):
        return None

    def running_backward(self, device):
        self.told.append(device)


def _copied(x):
    if not isinstance(x, torch.Tensor):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)


class Log:
    def __init__(self):
        self.counts, self.reasons, self.moved = Counter(), [], []

    def recorded(self):
        self.counts["recorded"] += 1

    def recorded_again(self, moved):
        self.moved.append([x.name for x in moved])

    def stopped(self, why):
        self.reasons.append(why)


def boxed(function):
    def call(args):
        given = list(args)
        args.clear()
        return function(*given)

    return call


def as_if_on_a_gpu(monkeypatch):
    """CPU tensors pass for ones on cuda:0; `Trees` stand for PyTorch's."""
    trees = Trees()

    def devices(graph):
        return {torch.device("cuda:0"): next(iter(graph.nodes))}

    for module in (capture_plan, unsafe_operators):
        monkeypatch.setattr(module, "on_gpu", lambda x: True)
    for module in (capture_plan, cudagraphify):
        monkeypatch.setattr(module, "devices_of", devices)
    made = cudagraphify.Replays.of
    monkeypatch.setattr(cudagraphify.Replays, "of", staticmethod(lambda gm, options: _with(made(gm, options), trees)))
    return trees


def _with(replays, trees):
    replays.recorder = trees
    return replays


def compiled(function, **options):
    options = {"on_error": "raise", "cudagraphs": True, **options}
    return torch.compile(function, backend="bascule", options=options)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6)

    def forward(self, x, y):
        return torch.relu(self.norm(self.linear(x))) * y
