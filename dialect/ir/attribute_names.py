"""Names of attributes by which one layer or stage tells another, beside those of functions (`functions.py`), which is where most of them are."""

# Of modules.
COMPILE = "bascule.compile"  # what it is the IR of: {name, direction, id}; the id is Dynamo's
# Of graph functions.
HOST_INPUTS = "bascule.host_inputs"  # numbers of tensors on the CPU that a graph on another device takes ...
HOST_OUTPUTS = "bascule.host_outputs"  # ... and returns
MEMORY = "bascule.memory"  # bytes of intermediates: {asked, arena, live}
OVERLAP = "bascule.overlap"  # seconds predicted of a graph with collectives
HOST_COPIES = "bascule.host_copies"  # bytes that a graph copies to the host or back, and seconds predicted
# Of kernel functions.
OPERATORS = "bascule.operators"  # the ATen operators that its ops were made from
# Of the arguments of functions.
LAYOUT = "bascule.layout"  # of a tensor at the torch stage, if it is not row-major and static
UNALIGNED = "bascule.unaligned"  # of a kernel's: its address may be any
# Of the calls of products.
FUSED = "bascule.fused"  # it is to be computed with others: a compute
TUNED_PRODUCT = (
    "bascule.tuned_product"  # it is a kernel of this schedule, which was measured, or a call (false); later on its sum
)
# Of reductions.
PARTIAL_SUMS = (
    "bascule.partial_sums"  # elements whose sum may have fewer bits than its type, before it is added up in that
)
INPUT_PRECISION = "bascule.input_precision"  # what factors of f32 are rounded to before they are multiplied: "tf32"
# Of computes.
TOGETHER = "bascule.together"  # a number: those that have it share a kernel, at the indices of the first one
TOGETHER_DIMS = (
    "bascule.together_dims"  # of one of them: its dim for each of the first one's, where they are in another order
)
INLINED = "bascule.inlined"  # its elements are computed where they are read
# Of an `arith.minsi` of indices.
TAIL = "bascule.tail"  # where it is the second one, nothing that is computed with it is asked for: it only keeps reads inside
# Of a `memref.alloc`.
ARENA = "bascule.arena"  # it is where intermediates lie
