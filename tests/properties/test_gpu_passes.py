"""The passes as they run for a GPU, where some do what they do for no CPU: the numbers stay."""

import pytest
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.passes import Pipeline, registry
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.programs import binary, extern, programs, unary, view
from tests.properties.test_passes import EAGER, STAGES, common, compare_after, sizes

# Thresholds so low that programs of a few elements pass them.
OPTIONS = {
    "segment-scatters": "always=true",
    "split-reductions": "parallel=3 min-size=2 cache=512",
    "form-kernels": "min-shared=1",
}


def _for_cuda(stage: str) -> str:
    cls = registry.find(stage)
    if cls is None or "target" not in cls.option_defaults():
        return EAGER.get(stage, stage)
    return f"{stage}{{{' '.join(filter(None, ('target=cuda', OPTIONS.get(stage))))}}}"


CUDA = [_for_cuda(stage) for stage in STAGES]
# Without launches of several independent kernels: what is left to group-launches.
ALONE = [stage.replace("form-kernels{", "form-kernels{max-parts=1 ") for stage in CUDA]
# Few long rows stay whole, and in one kernel.
WHOLE = [
    "form-kernels" if stage.startswith("form-kernels") else stage
    for stage in CUDA
    if not stage.startswith("split-reductions")
]
LAUNCHES = (unary, unary, binary, extern, extern, view)


@st.composite
def updates(draw: st.DrawFn) -> str:
    """The text of a module that writes new values to its arguments, as an optimizer's step does; some read what others write."""
    shapes = draw(st.lists(st.sampled_from(("4x8", "4x8", "4x8", "12")), min_size=2, max_size=7))
    function = draw(st.sampled_from(("math.sin", "math.absf", "arith.negf")))
    arguments, lines, copies = [], [], []
    for i, shape in enumerate(shapes):
        type_ = f"tensor<{shape}xf32>"
        arguments += [f"%p{i}: {type_}", f"%g{i}: {type_}"]
        like = [j for j, other in enumerate(shapes) if other == shape]
        first, second = draw(st.sampled_from(["p", "g"])) + str(i), f"p{draw(st.sampled_from(like))}"
        at, ranges = ("%i, %j", "4, 8") if "x" in shape else ("%i", "12")
        block = ", ".join(f"{index}: index" for index in at.split(", "))
        lines.append(f"""
  %v{i} = "bascule.compute"() ({{
  ^bb0({block}):
    %a = tensor.extract %{first}[{at}] : {type_}
    %b = tensor.extract %{second}[{at}] : {type_}
    %c = {function} %a : f32
    %d = arith.subf %b, %c : f32
    "bascule.yield"(%d) : (f32) -> ()
  }}) {{ranges = affine_map<() -> ({ranges})>}} : () -> {type_}""")
        copies.append(f'\n  "bascule.copy_into"(%v{i}, %p{i}) : ({type_}, {type_}) -> ()')
    return f"func.func @main({', '.join(arguments)}) attributes {{bascule.graph}} {{{''.join(lines + copies)}\n  return\n}}"


@st.composite
def long_rows(draw: st.DrawFn) -> str:
    """The text of a module: logarithms of sums of exponentials of rows too long for a GPU's registers, masked from some column on, or wholly."""
    columns, kept = draw(st.sampled_from((65536, 66001))), draw(st.sampled_from((66001, 50, 1, 0)))
    scale, result = draw(st.sampled_from(("mulf", "addf"))), draw(st.sampled_from(("%r", "%s", "%m")))
    rows = f"tensor<3x{columns}xf32>"
    element = f"""
      %e = tensor.extract %x[%i, %k] : {rows}
      %low = arith.constant 0xFF800000 : f32
      %count = arith.constant {kept} : index
      %in = arith.cmpi slt, %k, %count : index
      %kept = arith.select %in, %e, %low : f32
      %two = arith.constant 2.0 : f32
      %v = arith.{scale} %kept, %two : f32"""
    return f"""
func.func @main(%x: {rows}) -> tensor<3xf32> attributes {{bascule.graph}} {{
  %0 = "bascule.compute"() ({{
  ^bb0(%i: index):
    %m = "bascule.reduce"() ({{
    ^bb0(%k: index):{element}
      "bascule.yield"(%v) : (f32) -> ()
    }}) {{kind = "max", ranges = affine_map<() -> ({columns})>}} : () -> f32
    %s = "bascule.reduce"() ({{
    ^bb0(%k: index):{element}
      %d = arith.subf %v, %m : f32
      %p = math.exp %d : f32
      "bascule.yield"(%p) : (f32) -> ()
    }}) {{kind = "sum", ranges = affine_map<() -> ({columns})>}} : () -> f32
    %l = math.log %s : f32
    %r = arith.addf %l, %m : f32
    "bascule.yield"({result}) : (f32) -> ()
  }}) {{ranges = affine_map<() -> (3)>}} : () -> tensor<3xf32>
  return %0 : tensor<3xf32>
}}"""


# A pass that does nothing, or next to nothing, on the programs of `test_passes.py`: where it does something, and in which pipeline.
CASES = {
    "group-launches": (updates(), ALONE),
    "join-launches": (programs(dynamic=False, steps=LAUNCHES), CUDA),
    "online-softmax": (long_rows(), WHOLE),
}


def _position(name: str, pipeline: list[str]) -> int:
    return next(number for number, stage in enumerate(pipeline) if stage.partition("{")[0] == name)


@pytest.mark.parametrize("name", CASES)
def test_a_pass_does_not_change_the_numbers(name):
    programs_of_it, pipeline = CASES[name]
    position, changed = _position(name, pipeline), set()

    @settings(common, max_examples=40)
    @given(text=programs_of_it)
    def check(text):
        compare_after(text, 0, pipeline[:position], [pipeline[position]])
        changed.add(_changes(text, pipeline[:position], pipeline[position]))

    check()
    assert True in changed, f"{name} changed no program"


def _changes(text: str, before: list[str], tested: str) -> bool:
    with context() as ctx:
        module = ir.Module.parse(text, ctx)
        Pipeline.parse(",".join(before)).run(module)
        start = str(module)
        Pipeline.parse(tested).run(module)
        return str(module) != start


@pytest.mark.parametrize("name", CASES)
def test_the_pipeline_does_not_change_the_numbers(name):
    programs_of_it, pipeline = CASES[name]

    @settings(common, max_examples=20)
    @given(text=programs_of_it)
    def check(text):
        compare_after(text, 0, [], pipeline)

    check()


@settings(common, max_examples=60)
@given(text=programs(), size=sizes)
def test_random_programs_compute_the_same(text, size):
    compare_after(text, size, [], CUDA)
