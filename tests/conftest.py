"""Each test starts alone: no compiled code, counters at zero, and the same random numbers in every run and any order.

Tests see what the compiler does: nothing comes from the disk cache of the machine, unless a test gives it a directory. Fresh random numbers
come from `make soak`.
"""

import gc
import os
import random
from collections import Counter
from itertools import count
from zlib import crc32

import pytest
import torch
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

os.environ["BASCULE_CACHE_DIR"] = ""
os.environ.pop("BASCULE_REMOTE_CACHE", None)

# The same examples in every run; `make soak` has fresh ones, and keeps those that fail.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
settings.register_profile(
    "whole", settings.get_profile("fixed")
)  # with all examples, where `make test` has half of them
kept = DirectoryBasedExampleDatabase("soak_failures/hypothesis")
settings.register_profile("soak", deadline=None, derandomize=False, database=kept, print_blob=True)
settings.load_profile(os.environ.get("BASCULE_HYPOTHESIS", "fixed"))


def pytest_make_collect_report(collector):
    """Numbers that a module of tests draws when it is imported are the same in any order too."""
    if isinstance(collector, pytest.Module):
        random.seed(0)
        torch.manual_seed(0)


# Dynamo times the guards of each compile on caches that it empties for that: 30 ms, for a number in its logs.
torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
# Nor does it collect after each compile, which moves what is dead already to where the collector looks last.
torch._dynamo.config.run_gc_after_compile = False
TESTS_A_COLLECTION = 50  # dead graphs have cycles, and machine code of 1 MB each


def pytest_collection_finish(session):
    """Has the collector pass over all that is imported by now, which stays, and look less often: graphs die young, and in many pieces."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


# Folders whose cases are drawn, or are PyTorch's: `parts.py` says which of them run.
IN_PARTS = {"operators", "databases", "generators", "properties"}


def pytest_addoption(parser):
    parser.addoption("--every", type=int, default=1, metavar="N", help="run of each file the first test and every Nth")
    parser.addoption(
        "--few-cases", action="store_true", help="run of each function's cases the first two and a fourth of the rest"
    )


def pytest_collection_modifyitems(config, items):
    """Keeps the same tests in every run: they are counted as their file gives them, before any is left out by its name or marker.

    Of many cases a fourth is told by their names: one that is added, or taken out, moves no other in or out of the run.
    """
    every, few = config.getoption("every"), config.getoption("few_cases")
    seen, kept, left = Counter(), [], []
    for item in items:
        function = item.nodeid.partition("[")[0]
        many = few and not IN_PARTS.intersection(item.path.parts)
        out = seen[item.path] % every or (many and seen[function] > 1 and crc32(item.nodeid.encode()) % 4)
        (left if out else kept).append(item)
        seen.update((item.path, function))
    config.hook.pytest_deselected(items=left)
    items[:] = kept


started = count(1)


@pytest.fixture(autouse=True)
def fresh():
    from bascule.reporting.counters import reset_counters

    torch._dynamo.reset()
    if next(started) % TESTS_A_COLLECTION == 0:
        gc.collect()
    random.seed(0)
    torch.manual_seed(0)
    reset_counters()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A disk cache that is empty, and on."""
    path = tmp_path / "cache"
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(path))
    return path


@pytest.fixture
def on_cpu(monkeypatch):
    """CPU tensors pass for ones on cuda:0; stand-ins for PyTorch's trees of CUDA graphs, which are returned, record them."""
    from tests.cudagraphs.stand_in_trees import as_if_on_a_gpu

    return as_if_on_a_gpu(monkeypatch)
