"""The module that is generated for a GPU: what it says. `tests/gpu` runs it."""

import ast
import re

import pytest
import torch
from bascule.dialect.ir import context
from bascule.dialect.passes import Pipeline
from bascule.frontend.conversion.context import Asked
from bascule.frontend.conversion.rewriter import convert_module
from bascule.frontend.importer.graph import import_graph
from bascule.lowering.program import Plans, to_python
from bascule.lowering.triton.compile.programs import lower_kernels
from bascule.runtime.memory.alignment import aligned, realigned
from torch.fx.experimental.proxy_tensor import make_fx

from bascule.targets.placement import Placement

PASSES = (
    "fold-views,simplify-indexing,inline-producers,canonicalize,cse,form-kernels,"
    "schedule-kernels{target=cuda},order-program,bufferize-kernels,plan-memory"
)


def module_of(function, *inputs, placement=None, tracing_mode="fake", passes=PASSES):
    """The text for device 0 of a program whose graph was traced on the CPU."""
    gm = make_fx(function, tracing_mode=tracing_mode)(*inputs)
    module = import_graph(gm, inputs, context=context()).module
    (placement or Placement(torch.device("cuda", 0))).annotate(module)
    convert_module(module, Asked())
    Pipeline.parse(passes).run(module)
    text = to_python(module, Plans("cuda:0", lower_kernels(module).launches, "graph7_forward"))
    ast.parse(text)
    return text


def lines_with(text, part):
    return [line.strip() for line in text.splitlines() if part in line]


def test_launches_without_aten_between_them_are_one_run():
    def function(x, w):
        y = torch.softmax(x, -1)
        return (y.t() * 2).cumsum(0), (y @ w).relu()

    text = module_of(function, torch.randn(16, 8), torch.randn(8, 8))
    runs = lines_with(text, "    run")
    assert len(runs) == 2 and all("(stream, " in run for run in runs)
    assert lines_with(text, "stream = ") == ["stream = current_stream(0)"]
    launched = [line for line in text.splitlines() if line.startswith('    ("')]
    assert len(launched) >= 3, "a softmax, a scan, a relu"


def test_memory_is_the_caching_allocators():
    text = module_of(lambda x, w: (x.sin() @ w).cos() @ w, torch.randn(64, 64), torch.randn(64, 64))
    assert len(lines_with(text, "take_arena(")) == 1 and ', "graph7_forward")' in text
    assert "give_arena" not in text and "empty_cuda as empty" in text


def test_a_matrix_by_itself():
    text = module_of(lambda x: (x @ x).sum(0), torch.randn(64, 64))
    (product,) = lines_with(text, "mm_out(")
    assert re.fullmatch(r"mm_out\((\w+), \1, out=\w+\)", product) and "kept(stream)" in text


def test_large_memory_is_free_before_more_is_asked_for():
    """A run of kernels ends where a large input dies; a small one waits for the end of the run."""

    def runs(rows):
        x, y = torch.randn(rows, 512), torch.randn(rows, 256)
        return len(lines_with(module_of(lambda x, y: (x.cumsum(0), y.cumsum(0)), x, y), "(stream, "))

    assert runs(8) == 1 and runs(4096) == 2


def test_results_lie_in_the_memory_of_products_of_another_shape():
    def function(x, w, v):
        return torch.softmax(torch.nn.functional.gelu(x @ w), -1) @ v

    text = module_of(function, torch.randn(4, 64, 512), torch.randn(512, 512), torch.randn(512, 16))
    assert lines_with(text, "take_arena(") == [f'arena = take_arena({4 * 256 * 512}, "graph7_forward")']
    (allocated,) = lines_with(text, " = empty(")
    assert "(256, 16)" in allocated


def test_weights_are_cast_right_before_their_use():
    """Though the biases of all layers are cast in one launch, before the first product."""

    def function(x, *parameters):
        for w, b in zip(parameters[::2], parameters[1::2]):
            x = torch.addmm(b.bfloat16(), x, w.bfloat16())
        return x

    parameters = [torch.randn(*sizes) for _ in range(4) for sizes in ((256, 256), (256,))]
    passes = PASSES.replace("schedule-kernels", "group-launches{target=cuda},schedule-kernels").replace(
        "order-program,", ""
    )
    text = module_of(function, torch.randn(512, 256).bfloat16(), *parameters, passes=passes)
    calls = re.findall(r"# (?:to_copy_\d+(_x4)?: )?aten\.(addmm|_to_copy)", text[text.index("def call") :])
    assert [("all " if group else "") + name for group, name in calls].count("all _to_copy") == 1
    names = [name for group, name in calls if not group]
    assert names == ["_to_copy", "addmm"] * 4


def test_seeds_are_drawn_on_the_device():
    text = module_of(lambda x: torch.rand_like(x) * x, torch.randn(64, 64))
    (line,) = lines_with(text, "randint_low(")
    assert "device=DEVICE" in line and 'DEVICE = torch.device("cuda:0")' in text


def test_an_operator_asked_for_cpu_memory_makes_it_on_the_device():
    text = module_of(lambda x: x + torch.linspace(0, 1, 4, device="cpu").sort().values, torch.randn(4))
    assert 'device("cpu")' not in text and "device('cpu')" not in text


def test_inputs_and_outputs_on_the_cpu():
    placement = Placement(torch.device("cuda", 0), host_inputs=(1,), host_outputs=(0,))
    text = module_of(lambda x, scale: (x * scale, x + 1), torch.randn(8), torch.tensor(2.0), placement=placement)
    assert lines_with(text, "in1 = in1.to(DEVICE)")
    (returned,) = lines_with(text, "    return (")
    assert returned.count(".cpu()") == 1 and returned.index(".cpu()") < returned.index(", ")


def test_grids_of_dynamic_sizes_are_slots():
    text = module_of(lambda x: x.exp() + 1, torch.randn(40, 8), tracing_mode="symbolic")
    (launch,) = [line for line in text.splitlines() if line.startswith('    ("')]
    assert "slot(" in launch and "size(" in launch
    (run,) = lines_with(text, "reach=")
    assert re.search(r"reach=max\((\w+), (\w+), \1 \* \2\), sizes=\1 \|", run)


def test_views_at_addresses_of_their_own_are_not_taken_for_aligned():
    """The seed of a second operator is the second element of a tensor."""
    gm = make_fx(lambda x: torch.rand_like(x) + torch.rand_like(x))(torch.randn(64))
    module = import_graph(gm, [torch.randn(64)], context=context()).module
    convert_module(module, Asked())
    Pipeline.parse(PASSES).run(module)
    kernels = lower_kernels(module).kernels
    marked = str(module).count("bascule.unaligned")
    assert marked == (1 if "bascule.view" in str(module) else 0)
    hints = sum(kernel.ttir.count("tt.divisibility") for kernel in kernels.values())
    pointers = sum(kernel.ttir.split("function_type")[1].split("->")[0].count("!tt.ptr") for kernel in kernels.values())
    assert hints == pointers - marked


@pytest.mark.parametrize(("sizes", "strides"), [((3, 4), (4, 1)), ((3, 4), (1, 3)), ((3, 4), (0, 1)), ((0, 4), (4, 1))])
def test_aligned_copies_keep_strides(sizes, strides):
    memory = torch.randn(64)
    x = memory.as_strided(sizes, strides, 1)
    y = aligned(x)
    assert y.data_ptr() % 16 == 0 and y.stride() == x.stride() and torch.equal(x, y)
    assert aligned(memory) is memory


def test_outputs_that_are_arguments_stay_what_they_are():
    memory = torch.randn(9)
    x, y = memory[1:], torch.randn(8)

    def call(args):
        x, y = args
        args.clear()
        assert x.data_ptr() % 16 == 0
        x.add_(1)
        return x, y, x * 2

    want = x + 1
    got = realigned(call, [x, y], checked=[0, 1], written=[0])
    assert got[0] is x and got[1] is y and torch.equal(x, want) and torch.equal(got[2], want * 2)


def test_outputs_that_lie_in_arguments_lie_there_still():
    memory = torch.randn(12)
    x = memory[1:9].view(2, 4)

    def call(args):
        (x,) = args
        args.clear()
        assert x.data_ptr() % 16 == 0
        return x.t()[1:, :1], x.view(torch.int32)[1], x[0], x * 2

    got = realigned(call, [x], checked=[0], written=[])
    for output, want in zip(got, (x.t()[1:, :1], x.view(torch.int32)[1], x[0], x * 2), strict=True):
        assert torch.equal(output, want) and output.stride() == want.stride()
        assert output.storage_offset() == want.storage_offset()
    assert all(output.untyped_storage().data_ptr() == memory.data_ptr() for output in got[:3])


def test_an_arena_is_freed_before_what_is_made_after_it():
    """Not one that is kept between calls, and not before the last kernel that reads it."""

    def function(x, w):
        y = (((x.sin() @ w).cos() @ w).tan() @ w).amax(0)
        return y.expand(4 * x.shape[0], -1) + 1

    passes = PASSES.replace("plan-memory", "plan-memory{target=cuda}")
    text = module_of(function, torch.randn(1024, 64), torch.randn(64, 64), passes=passes)
    body = text[text.index("def call") :]
    (deleted,) = lines_with(body, "arena,")
    assert deleted.startswith("del ") and body.index("run") < body.index(deleted) < body.rindex("empty(")
    assert re.search(r"\barena_float32\b", deleted) and not re.search(
        r"\barena\b", body[body.index(deleted) + len(deleted) :]
    )
    small = module_of(function, torch.randn(64, 64), torch.randn(64, 64), passes=passes)
    assert not lines_with(small, "del arena") and "free.append(layout)" in small
