"""The largest integers that a kernel's index arithmetic meets."""

from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.analysis.bodies.index_width import reach_of
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir

from tests.dialect.analysis.small_kernels import load, loop

BUFFERS = {"x": "memref<7xf32>", "m": "memref<7xindex>", "d": "memref<?xf32>"}


def reached(kernel: ir.Operation) -> tuple[int, list[str]] | None:
    """The number and the expressions of a kernel's reach."""
    indexing = Indexing(symbols_of(kernel.parent), Simplifier())
    body = Body(kernel)
    for node in (body.root, *body.loops):
        indexing.enter(node.op)
    found = reach_of(kernel, indexing)
    return None if found is None else (found.static, [str(bound) for bound in found.dynamic])


def apply(name: str, map_: str, index: str) -> str:
    return f"\n      %{name} = affine.apply affine_map<(d0) -> ({map_})>(%{index})"


def test_the_points_of_the_largest_loop(kernel):
    inner = loop("", "k", "127", load("a", "x", "i")) + loop("", "n", "131", load("b", "x", "i"))
    assert reached(kernel(BUFFERS, {"i": "7", "j": "17"}, inner)) == (131, ["s0"])
    assert reached(kernel(BUFFERS, {"i": "7", "j": "19"}, inner)) == (7 * 19, ["s0"])
    assert reached(kernel(BUFFERS, {"i": "0", "j": "19"}, "")) == (0, ["s0"])


def test_a_buffer_reaches_to_its_last_element(kernel):
    def strided(type_: str) -> tuple[int, list[str]] | None:
        return reached(kernel({"x": type_}, {"i": "5"}, load("a", "x", "i", "i")))

    assert strided("memref<5x31xf32>") == (5 * 31, ["s0"])
    assert strided("memref<5x31xf32, strided<[64, 2], offset: 3>>") == (4 * 64 + 30 * 2 + 3 + 1, ["s0"])
    assert strided("memref<1x31xf32, strided<[1024, 1]>>") == (31, ["s0"])
    assert strided("memref<0x31xf32, strided<[64, 1], offset: 1021>>") == (5, ["s0"])


def test_sizes_that_are_symbols(kernel):
    module = ir.Module.parse("""
func.func private @k(%s0: index, %x: tensor<?x7xf32> {bascule.shape = affine_map<()[s0] -> (s0, 7)>})
    attributes {bascule.kernel} {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %a = tensor.extract %x[%i, %i] : tensor<?x7xf32>
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0 + 3)>} : () -> ()
  return
}""")
    (function,) = functions(module)
    found = reached(kernel_op(function))
    assert found == (0, ["s0", "s0 + 3", "s0 * 7"])
    assert reached(kernel(BUFFERS, {"i": "7"}, load("a", "d", "i"))) is None  # no size is known of memory


def test_what_is_divided_counts_and_what_may_wrap_does_not(kernel):
    def at(map_: str) -> tuple[int, list[str]] | None:
        return reached(kernel(BUFFERS, {"i": "7"}, apply("at", map_, "i") + load("a", "x", "at")))

    assert at("d0 * 1009 - d0 * 1008") == (7, ["s0"])
    assert at("d0 * 1009") == (7, ["s0"])
    assert at("(d0 * 1009) floordiv 1024") == (6 * 1009, ["s0"])
    assert at("(d0 * 31) mod 257") == (7, ["s0"])  # 186 at most: no remainder is left
    assert at("(d0 * 31) mod 127") == (6 * 31, ["s0"])
    assert at("(d0 * -101) mod 5") == (6 * 101, ["s0"])


def test_what_is_compared_or_becomes_data_counts(kernel):
    at = apply("at", "d0 * 127 + 1", "i") + "\n      %bound = arith.constant -1021 : index"
    compared = at + "\n      %in = arith.cmpi slt, %at, %i : index"
    assert reached(kernel(BUFFERS, {"i": "7"}, at)) == (7, ["s0"])
    assert reached(kernel(BUFFERS, {"i": "7"}, compared)) == (6 * 127 + 1, ["s0"])
    assert reached(kernel(BUFFERS, {"i": "7"}, compared.replace("%at, %i", "%at, %bound"))) == (1021, ["s0"])
    made = at + "\n      %data = arith.index_cast %at : index to i64"
    assert reached(kernel(BUFFERS, {"i": "7"}, made)) == (6 * 127 + 1, ["s0"])
    # An index of the one point there is, is 0.
    assert reached(kernel(BUFFERS, {"i": "1"}, compared)) == (1, ["s0"])


def test_positions_of_largest_elements_are_below_their_number(kernel):
    largest = loop("p", "k", "9", load("a", "x", "k"), "%a", "argmax").replace("-> f32", "-> i64")
    at = "\n      %q = arith.index_cast %p : i64 to index" + apply("at", "d0 floordiv 3 + 5", "q")
    data = "\n      %data = arith.index_cast %at : index to i64"
    assert reached(kernel(BUFFERS, {"i": "5"}, largest + at + data)) == (9, ["s0"])
    smallest = largest.replace("argmax", "argmin").replace("(9)", "(1021)")
    assert reached(kernel(BUFFERS, {"i": "5"}, smallest + at + data)) == (1021, ["s0"])


def test_what_is_clamped_is_known(kernel):
    def clamped(least: str) -> tuple[int, list[str]] | None:
        bounds = f"\n      %least = arith.constant {least} : index\n      %most = arith.constant 1021 : index"
        inside = "\n      %up = arith.maxsi %r, %least : index\n      %in = arith.minsi %up, %most : index"
        at = apply("at", "d0 floordiv 2", "in") + "\n      %data = arith.index_cast %at : index to i64"
        return reached(kernel(BUFFERS, {"i": "5"}, load("r", "m", "i") + bounds + inside + at))

    assert clamped("0") == (1021, ["s0"])
    assert clamped("-1") is None


def test_data_is_not_known_where_it_is_divided(kernel):
    def at(map_: str) -> tuple[int, list[str]] | None:
        gather = load("r", "m", "i") + apply("at", map_, "r") + load("a", "x", "at")
        return reached(kernel(BUFFERS, {"i": "5"}, gather))

    assert at("d0 * 1021 + 1") == (7, ["s0"])
    assert at("d0 floordiv 2") is None
