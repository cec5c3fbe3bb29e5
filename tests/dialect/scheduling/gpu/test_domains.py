"""A parallel domain of a GPU kernel as the choice of its schedule sees it."""

from collections.abc import Callable

import pytest
from bascule.dialect.scheduling.gpu.domains import Domain
from bascule.dialect.scheduling.gpu.machine import H200

from tests.dialect.small_kernels import body_of, load, loop, store

BUFFERS = {"x": "memref<64x512xf32>", "w": "memref<512xbf16>", "y": "memref<64xf32>", "z": "memref<512x64xf32>"}


@pytest.fixture
def domain(kernel) -> Callable[..., Domain]:
    def make(ranges: dict[str, str], body: str) -> Domain:
        made = body_of(kernel(BUFFERS, ranges, body))
        return Domain(made, made.root, H200)

    return make


ROWS = loop("s", "k", "512", load("a", "x", "i", "k"), "%a") + store("s", "y", "i")


def test_memory_runs_along_the_rows_that_are_reduced(domain):
    rows = domain({"i": "64"}, ROWS)
    (reduce,) = rows.inner
    assert (rows.points, rows.lanes, rows.lengths) == (64, [reduce], [512])
    assert rows.bytes_along(reduce) == 64 * 512 * 4
    assert rows.along[rows.indices[0]] == 64 * 4
    assert rows.heaviest == 64 * 512 * 4


def test_what_a_thread_loads_with_one_instruction(domain):
    rows = domain({"i": "64"}, ROWS)
    assert rows.neighbours(rows.lanes[0].indices[0]) == (4, True)
    assert rows.neighbours(rows.indices[0]) == (1, True)


def test_indices_are_ordered_as_the_heaviest_access_has_them(domain):
    copied = domain({"j": "512", "i": "64"}, load("a", "x", "i", "j") + store("a", "x", "i", "j"))
    assert copied.order(copied.indices, copied.sizes) == [1, 0]
    assert copied.runs([1, 0]) == [[1, 0]]
    turned = domain({"i": "64", "j": "512"}, load("a", "x", "i", "j") + store("a", "z", "j", "i"))
    assert turned.runs([0, 1]) == [[0], [1]]


def test_a_domain_of_one_of_several_loops(kernel):
    first = loop("", "i", "64", load("a", "y", "i") + store("a", "y", "i"))
    second = loop("", "j", "512", load("b", "z", "j", "j") + store("b", "z", "j", "j"))
    body = body_of(kernel(BUFFERS, {}, first + second))
    parts = [Domain(body, node, H200) for node in body.root.inner_loops()]
    assert [part.points for part in parts] == [64, 512]
    assert [len(part.accesses) for part in parts] == [2, 2]
    assert parts[1].heaviest == 512 * 4
