"""Tensors put where a graph has them in their storages, and those that operators return."""

import pytest
import torch
from bascule.runtime.memory.allocation import begun_at

import bascule


@pytest.mark.parametrize("strides", [None, (4, 1), (1, 3), (9, 2)])
@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("given", ["from the start", "from within", "transposed", "empty"])
def test_begun_at(given, offset, strides):
    x = torch.randn(12).view(3, 4)
    if given == "from within":
        x = torch.randn(17)[5:].view(3, 4)
    if given == "transposed":
        x = torch.randn(4, 3).t()
    if given == "empty":
        x = x[:0]
    got = begun_at(x, offset, strides)
    assert (got.storage_offset(), got.stride(), got.shape) == (offset, strides or x.stride(), x.shape)
    assert torch.equal(got, x)
    assert (got is x) == (x.storage_offset() == offset and x.stride() == (strides or x.stride()))


def test_an_undefined_result_is_told_with_the_line():
    """As the workspace of `mkldnn_rnn_layer`, the kernel of an LSTM."""
    with torch.library._scoped_library("bascule_undefined", "DEF") as library:
        library.define("maybe(Tensor x) -> (Tensor, Tensor)")
        library.impl("maybe", lambda x: (x + 1, None), "CPU")
        library.impl("maybe", lambda x: (torch.empty_like(x), torch.empty_like(x)), "Meta")

        def function(x):
            made, workspace = torch.ops.bascule_undefined.maybe(x)
            return made * 2, workspace

        torch._dynamo.reset()
        with pytest.raises(RuntimeError, match=r"no tensor where its fake kernel has one of sizes \[4\]") as raised:
            torch.compile(function, backend="bascule")(torch.randn(4))
        assert "test_allocation.py" in "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.complex64])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_result_of_another_dtype_is_read_by_no_kernel(dtype, dynamic):
    """A kernel would read beyond what is there. Who only passes it on has what eager has."""
    with torch.library._scoped_library("bascule_other_dtype", "DEF") as library:
        library.define("other(Tensor x) -> Tensor")
        library.impl("other", lambda x: x.to(dtype), "CPU")
        library.impl("other", torch.empty_like, "Meta")
        other, x = torch.ops.bascule_other_dtype.other, torch.randn(6, 4)
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: (other(x), x + 1), backend="bascule", dynamic=dynamic)
        assert all(map(torch.equal, compiled(x), (other(x), x + 1)))
        for function in (
            lambda x: other(x).sin(),
            lambda x: other(x)[1:].sum(0),
            lambda x: other(x).softmax(-1) @ x.t(),
        ):
            torch._dynamo.reset()
            told = rf"returned {dtype} where its fake kernel has torch.float32"
            with pytest.raises(RuntimeError, match=told) as raised:
                torch.compile(function, backend="bascule", dynamic=dynamic)(x)
            assert "test_allocation.py" in "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_so_it_is_of_an_operator_that_runs_between_parts(dtype):
    """One whose sizes data decides."""
    with (
        torch.library._scoped_library("bascule_other_found", "DEF") as library,
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
    ):
        library.define("positive(Tensor x) -> Tensor")
        library.impl("positive", lambda x: x[x > 0].to(dtype), "CPU")
        torch.library.register_fake(
            "bascule_other_found::positive",
            lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size()),
            lib=library,
        )
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: torch.ops.bascule_other_found.positive(x + 1).sin() * 2, backend="bascule")
        with pytest.raises(RuntimeError, match=rf"returned {dtype} where its fake kernel has torch.float32") as raised:
            compiled(torch.randn(6, 4))
        assert "test_allocation.py" in "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])


@pytest.mark.parametrize("made", ["positive", "other"])
def test_each_of_several_between_parts_is_told_with_its_own_line(made, tmp_path, monkeypatch):
    """From the disk cache too."""
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))
    with (
        torch.library._scoped_library("bascule_several", "DEF") as library,
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
    ):
        for name in ("positive", "other"):
            library.define(f"{name}(Tensor x) -> Tensor")
            wrong = name == made
            library.impl(name, lambda x, wrong=wrong: x[x > 0][:, None].expand(-1, 2 if wrong else 3), "CPU")
            torch.library.register_fake(
                f"bascule_several::{name}",
                lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size(), 3),
                lib=library,
            )

        def function(x):
            first = torch.ops.bascule_several.positive(x)
            second = torch.ops.bascule_several.other(x)
            return first.sin().sum() + second.cos().sum()

        begin, cached = function.__code__.co_firstlineno, []
        for _ in range(2):
            torch._dynamo.reset()
            with pytest.raises(RuntimeError, match=r"sizes \[\d+, 2\] where \[\d+, 3\] were asserted") as raised:
                torch.compile(function, backend="bascule", options={"trace_cache": False})(torch.randn(6, 4))
            line = begin + (1 if made == "positive" else 2)
            assert raised.value.__notes__ == [f"in the operator called at {__file__}:{line}:0"]
            cached.append(bascule.counters()["cache"].get("hit", 0))
        assert cached[1] > cached[0]
