"""Large results in memory that earlier results had: it is given again when nobody has it, and not before."""

import gc
import multiprocessing
import threading

import pytest
import torch
from bascule.runtime import release_arenas
from bascule.runtime.memory import result_block_pool
from bascule.runtime.memory.result_block_pool import LEAST, LIMIT, PATIENCE, empty_kept

SIZES, STRIDES = (512, 1024), (1024, 1)


@pytest.fixture(autouse=True)
def no_blocks():
    release_arenas()
    yield
    release_arenas()


def made(rows=512, dtype=torch.float32):
    return empty_kept((rows, 1024), STRIDES, dtype, rows * 1024 * dtype.itemsize)


def test_memory_is_given_again_when_its_tensor_is_gone():
    x = made()
    place = x.data_ptr()
    y = made()
    assert y.data_ptr() != place
    del x
    again = made()
    assert again.data_ptr() == place and again.shape == SIZES and again.stride() == STRIDES
    assert again._version == 0 and not again._is_view() and again.untyped_storage().nbytes() == 512 * 1024 * 4


HOLDERS = {
    "a view": lambda x: x[3:5],
    "a detached tensor": lambda x: x.detach(),
    "an array of NumPy's": lambda x: x.numpy(),
    "a storage": lambda x: x.untyped_storage(),
    "a typed storage": lambda x: x.storage(),
    "a capsule": torch.utils.dlpack.to_dlpack,
    "a saved tensor": lambda x: torch.ones(1, 1024, requires_grad=True) * x,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_memory_that_somebody_has_is_not_given(holder):
    x = made().fill_(1)
    place = x.data_ptr()
    held = HOLDERS[holder](x)
    del x
    gc.collect()
    other = made()
    assert other.data_ptr() != place
    del held
    gc.collect()
    again = made()
    assert again.data_ptr() == place


def test_other_sizes_dtypes_and_kinds_of_tensor_have_blocks_of_their_own():
    place = made().data_ptr()
    for other in (made(513), made(dtype=torch.int32)):
        assert other.data_ptr() != place
    del other
    with torch.inference_mode():
        inferred = made()
        assert inferred.is_inference() and inferred.data_ptr() != place
    again = made()
    assert not again.is_inference() and again.data_ptr() == place


def test_memory_that_moved_is_not_given():
    """Shared with another process, which may still have it when it is gone here; or resized."""
    shared = made().fill_(3).share_memory_()
    place = shared.data_ptr()
    del shared
    assert made().data_ptr() != place
    release_arenas()
    resized = made()
    resized.untyped_storage().resize_(0)
    del resized
    assert made().fill_(1).sum() == 512 * 1024


def test_blocks_are_bounded_and_those_that_nobody_takes_are_given_up():
    tensors = [made(1024) for _ in range(LIMIT // (4 << 20) + 3)]
    assert sum(block.key[0] for block in result_block_pool._blocks) == LIMIT
    del tensors
    for _ in range(PATIENCE + 1):
        assert made(512).shape == SIZES
    assert any(block.key[0] == 2 << 20 for block in result_block_pool._blocks)
    assert sum(block.key[0] for block in result_block_pool._blocks) <= LIMIT
    release_arenas()
    assert not result_block_pool._blocks


def test_small_and_huge_ones_are_not_kept():
    empty_kept((LEAST // 4 - 1,), (1,), torch.float32, LEAST - 4)
    empty_kept((LIMIT + 1,), (1,), torch.uint8, LIMIT + 1)
    assert not result_block_pool._blocks


def _child(place, queue):
    x = made()
    queue.put(x.data_ptr() != place)  # nothing of OpenMP, whose threads are not here


def test_a_fork_while_a_thread_is_at_it():
    x = made()
    result_block_pool._busy.acquire()
    try:
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        child = context.Process(target=_child, args=(x.data_ptr(), queue))
        child.start()
        assert queue.get()
        child.join()
    finally:
        result_block_pool._busy.release()


def test_threads_have_blocks_of_their_own():
    failures = []

    def work(number):
        for _ in range(200):
            x = made().fill_(number)
            y = made().fill_(-number)
            if not (x[0, 0] == x[-1, -1] == number and y[0, 0] == y[-1, -1] == -number):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_results_of_a_compiled_function():
    release_arenas()
    function = torch.compile(lambda x: (x * 2, x + 1), backend="bascule", options={"on_error": "raise"})
    x = torch.randn(512, 1024)
    doubled, more = function(x)
    kept = doubled.clone()
    place = more.data_ptr()
    del more
    again, other = function(x + 1)
    places = {again.data_ptr(), other.data_ptr()}
    assert len(places) == 2 and place in places and doubled.data_ptr() not in places
    assert torch.equal(doubled, kept) and torch.equal(again, (x + 1) * 2) and torch.equal(other, x + 1 + 1)


def test_gradients_of_a_training_step_are_right_when_memory_comes_again():
    function = torch.compile(lambda x, w: (x * w).sin() * w, backend="bascule", options={"on_error": "raise"})
    w = torch.randn(1024, requires_grad=True)
    for _ in range(4):
        x = torch.randn(512, 1024, requires_grad=True)
        out = function(x, w)
        first = torch.autograd.grad(out, (x, w), torch.ones_like(out), retain_graph=True)
        second = torch.autograd.grad(out, (x, w), torch.ones_like(out) * 2)
        wanted = torch.autograd.grad((x * w).sin() * w, (x, w), torch.ones_like(out))
        for a, b, c in zip(first, second, wanted, strict=True):
            torch.testing.assert_close(a, c, rtol=1e-4, atol=1e-3)
            torch.testing.assert_close(b, 2 * c, rtol=1e-4, atol=1e-3)
