"""Operators of the database that are not compared as the others are, with the reason; by name of the entry.

Nothing that runs may be wrong: an operator that AOTAutograd cannot trace runs through Dynamo, graph breaks and all, and
is compared with eager.
"""

from tests.operators.opinfo import DEVICE

_RANDOM = "draws other random numbers than eager"
_UNWRITTEN = "shows memory that nobody has written"
_SIZES = "sizes of its results depend on data"
_NUMBER = "a number in its inputs or results decides how it goes on"
_MASK = "an index is a boolean mask: how much it selects depends on data"
_SPARSE = "its result is sparse, a layout that AOTAutograd does not trace; torch ends the process"
_CUDA = "torch has it for CUDA only"
_EAGER = "eager refuses one of the samples for CUDA"

# Sizes, dtypes and strides are compared, numbers are not.
NUMBERS_DIFFER: dict[str, str] = {
    "bernoulli": _RANDOM,
    "cauchy": _RANDOM,
    "exponential": _RANDOM,
    "geometric": _RANDOM,
    "log_normal": _RANDOM,
    "multinomial": _RANDOM,
    "nn_functional_alpha_dropout": _RANDOM,
    "nn_functional_dropout": _RANDOM,
    "nn_functional_dropout2d": _RANDOM,
    "nn_functional_dropout3d": _RANDOM,
    "nn_functional_feature_alpha_dropout_with_train": _RANDOM,
    "nn_functional_fractional_max_pool2d": _RANDOM,
    "nn_functional_fractional_max_pool3d": _RANDOM,
    "nn_functional_multi_head_attention_forward": _RANDOM,
    "nn_functional_rrelu": _RANDOM,
    "nn_functional_scaled_dot_product_attention": _RANDOM,
    "normal": _RANDOM,
    "normal_in_place": _RANDOM,
    "normal_number_mean": _RANDOM,
    "rand_like": _RANDOM,
    "randint": _RANDOM,
    "randint_like": _RANDOM,
    "randn": _RANDOM,
    "randn_like": _RANDOM,
    "uniform": _RANDOM,
    "torch_ops_aten__efficient_attention_forward": _RANDOM,  # a seed for the dropout of its backward
    "torch_ops_aten__flash_attention_forward": _RANDOM,
    "empty": _UNWRITTEN,
    "empty_like": _UNWRITTEN,
    "empty_permuted": _UNWRITTEN,
    "empty_strided": _UNWRITTEN,
    "new_empty": _UNWRITTEN,
    "new_empty_strided": _UNWRITTEN,
}

# What AOTAutograd cannot trace by itself runs through Dynamo, which leaves parts of it to eager.
THROUGH_DYNAMO: dict[str, str] = {
    "allclose": _NUMBER,
    "argwhere": _SIZES,
    "bincount": _SIZES,
    "combinations": _SIZES,
    "corrcoef": _NUMBER,
    "cov": _NUMBER,
    "equal": _NUMBER,
    "index_fill": _SIZES,
    "index_put": _MASK,
    "item": _NUMBER,
    "linalg_lstsq": _SIZES,
    "linalg_lstsq_grad_oriented": _SIZES,
    "masked_select": _SIZES,
    "narrow": _NUMBER,
    "nn_functional_ctc_loss": _NUMBER,
    "nonzero": _SIZES,
    "nn_functional_gaussian_nll_loss": _NUMBER,
    "nn_functional_one_hot": _NUMBER,
    "tensor_split": _NUMBER,
    "unique": _SIZES,
    "unique_consecutive": _SIZES,
}

# Of samples with sizes of 0. Eager's own fault, by which it ends the process: not run.
EAGER_CRASHES_EMPTY: dict[str, str] = {
    "nn_functional_pdist": "eager's backward of no points divides by zero",
    "_segment_reduce_offsets": "eager reads beyond data that its offsets do not fit to",
}
# Eager shows memory that nobody has written: what is resized has more elements than before.
NUMBERS_DIFFER_EMPTY: dict[str, str] = {"resize_": _UNWRITTEN, "resize_as_": _UNWRITTEN}

# Not run at all.
SKIPPED: dict[str, str] = {
    "jiterator_2inputs_2outputs": _CUDA,
    "jiterator_4inputs_with_extra_args": _CUDA,
    "jiterator_binary": _CUDA,
    "jiterator_binary_return_by_ref": _CUDA,
    "jiterator_unary": _CUDA,
    "sparse_mm_reduce": _SPARSE,
    "sparse_sampled_addmm": _SPARSE,
    "to_sparse": _SPARSE,
    **({} if DEVICE == "cpu" else {"_softmax_backward_data": _EAGER}),
}
