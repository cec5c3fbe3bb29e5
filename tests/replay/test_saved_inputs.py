"""Inputs beside a dump: what a graph was called with, as values or as sizes, and `bascule-run --inputs` of any stage with them."""

import pytest
import torch

from bascule.errors import UserError
from bascule.replay.saved_inputs import read_inputs, write_inputs
from bascule.tools import run


def embedded(table, index, x):
    return table[index] * x[: index.shape[0]].t().contiguous().t()


@pytest.fixture(params=["values", "shapes"])
def dumped(request, tmp_path):
    """The folder of a graph of dynamic sizes with an index, and the arguments of its first call."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    given = (torch.randn(1000, 3), torch.randint(900, 1000, (7,)), torch.randn(9, 3))
    options = {"dump": str(tmp_path), "dump_inputs": request.param, "on_error": "raise"}
    compiled = torch.compile(embedded, backend="bascule", options=options, dynamic=True)
    compiled(*given)
    compiled(given[0], given[1][:3], given[2])  # the first call counts
    (folder,) = tmp_path.glob("*_inference")
    return request.param, folder, given


def test_they_are_those_of_the_first_call(dumped):
    kind, folder, given = dumped
    (file,) = folder.glob("inputs.*")
    found = [x for x in read_inputs(str(file)) if isinstance(x, torch.Tensor)]
    wanted = sorted(given, key=lambda x: x.numel())
    for got, want in zip(sorted(found, key=lambda x: x.numel()), wanted, strict=True):
        assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
        if kind == "values":
            assert torch.equal(got, want)
        elif got.dtype == torch.int64:
            assert got.min() >= 900 and got.max() < 1000


@pytest.mark.parametrize("stage", ["import", "form-kernels", "plan-memory"])
def test_each_stage_runs_with_them(dumped, stage, capsys):
    _, folder, _ = dumped
    (file,) = folder.glob("inputs.*")
    assert run.main([str(next(folder.glob(f"*-{stage}.mlir"))), "--inputs", str(file), "--print"]) == 0
    assert "[7, 3]" in capsys.readouterr().out


def test_strides_and_small_views_of_large_memory_are_kept(tmp_path):
    large = torch.randn(1000, 1000)
    values = [3, large[2, 4:8], large[:3, :2].t(), torch.randn(4).to(torch.bfloat16).expand(2, 4), torch.empty(0, 5)]
    path = write_inputs(tmp_path, values, "values")
    assert path.stat().st_size < 20_000
    for got, want in zip(read_inputs(str(path)), values, strict=True):
        assert got == want if isinstance(want, int) else torch.equal(got, want) and got.stride() == want.stride()


@pytest.mark.parametrize("content", ["", "{}", '{"format": 1, "seed": 0, "arguments": [{}]}', '{"format": 9}'])
@pytest.mark.parametrize("suffix", ["json", "pt"])
def test_what_has_no_inputs_is_an_error_with_a_place(tmp_path, content, suffix):
    path = tmp_path / f"inputs.{suffix}"
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        read_inputs(str(path))
    assert caught.value.location == str(path)


def test_inputs_that_do_not_fit_the_function_are_refused(dumped, tmp_path, capsys):
    _, folder, _ = dumped
    path = write_inputs(tmp_path, [torch.randn(2)], "values")
    assert run.main([str(next(folder.glob("*-plan-memory.mlir"))), "--inputs", str(path)]) == 1
    assert "arguments, got 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "values", [[torch.ones(3).to_sparse()], [torch.ones(3, device="meta")], [1 << 70], [2.5], [None], {"x": 1}]
)
def test_what_no_graph_takes_is_refused_by_the_file(tmp_path, values):
    torch.save(values, tmp_path / "inputs.pt")
    with pytest.raises(UserError, match=r"inputs\.pt: has something else"):
        read_inputs(str(tmp_path / "inputs.pt"))
