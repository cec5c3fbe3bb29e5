"""Outputs that share memory with inputs, with intermediates and with each other; layouts of inputs and outputs; what is no tensor."""

import torch

from tests.wrapper.harness import Case, indices, r


def expanded_sum(x):
    return x * 2 + x.sum(0)


def shapes_and_none(x):
    return None, x.shape[0], 2.5, True, (x + 1), x.shape[0] * 3


def of_intermediate(x):
    y = x * 2
    return y, y.t(), y[1:]


def only_views_of_intermediate(x):
    y = x * 2
    return y.t(), y[1:]


def one_output_twice(x):
    y = x * 2
    return y, y, x


def views_of_views(x):
    y = x[1:]
    return y, y[1:], y[1:].t()


def split_outputs(x):
    return torch.split(x * 1, 2)


def chunked_input(x):
    return torch.chunk(x, 3)


def unbound_input(x):
    return torch.unbind(x)


def detached(x):
    y = x * 2
    return y, y.detach()


def tree(x):
    return {"a": [x + 1, {"b": (x * 2, None)}], "n": 3}


def overlapping_view(x):
    return x.unfold(0, 3, 1) * 1, x.unfold(0, 3, 1)


def number_by_dtype(x):
    return x.view(torch.int32), x + 1


def real_of_complex(x):
    return torch.view_as_real(x), (x * 2).real


def channels_last():
    return [r(2, 3, 4, 5).to(memory_format=torch.channels_last)]


def internally_overlapping():
    return [r(10).as_strided((4, 4), (2, 1))]


def offset_of_expanded():
    return [r(6, 5)[2:3].expand(4, 5)]


def equal_results(x):
    return x * 2, x * 2


def copy_of_an_intermediate(x):
    y = x * 2
    return y, y.clone(), y.clone().t(), y.t().clone()


def saved_for_a_written_input(x):
    y = x.clone()
    x.add_(1)
    return y, x.clone()


def negated(*sizes):
    """Numbers whose negatives are in memory."""
    return r(*sizes, dtype=torch.complex64).conj().imag


CASES = [
    Case("gaps flattened, dynamic", lambda x: x[..., ::2].reshape(-1)[1:], lambda: [r(4, 6)], dynamic=True),
    Case(
        "rows and gaps flattened, in training, dynamic",
        lambda x: (x[1:][..., ::2].flatten()[1:], x * 2),
        lambda: [r(4, 6, grad=True)],
        dynamic=True,
    ),
    Case("a view of an input", lambda x: (x.t(), x + 1), lambda: [r(4, 5)]),
    Case("a slice of an input", lambda x: x[1:, 2], lambda: [r(4, 5)]),
    Case("an input", lambda x: (x, x * 2), lambda: [r(4, 5)]),
    Case("only an input", lambda x: x, lambda: [r(4, 5)]),
    Case("only a view of an input", lambda x: x.view(-1), lambda: [r(4, 5)]),
    Case("an input, twice", lambda x: (x, x, x + 1), lambda: [r(4, 5)]),
    Case("a view of a written input", lambda x: x.add_(1).t(), lambda: [r(4, 5)]),
    Case("views of a view of an input", views_of_views, lambda: [r(4, 5)]),
    Case("chunks of an input", chunked_input, lambda: [r(7, 2)]),
    Case("an input unbound", unbound_input, lambda: [r(3, 4)]),
    Case("an input expanded", lambda x: x.expand(3, 5), lambda: [r(1, 5)]),
    Case("an input expanded behind", lambda x: x.unsqueeze(1).expand(3, 5), lambda: [r(3)]),
    Case("an input's diagonal", lambda x: (x.diagonal(), x * 2), lambda: [r(4, 4)]),
    Case("an input unfolded, overlapping", overlapping_view, lambda: [r(8)]),
    Case("an input read as another dtype", number_by_dtype, lambda: [r(4, 5)]),
    Case("an input as_strided", lambda x: x.as_strided((2, 2), (1, 2), 3), lambda: [r(4, 5)]),
    Case("a view with an offset of an offset", lambda x: x[1:, 1:], lambda: [r(6, 5)[2:]]),
    Case("a complex input's parts", real_of_complex, lambda: [r(4, dtype=torch.complex64)]),
    Case("an intermediate and views of it", of_intermediate, lambda: [r(4, 5)]),
    Case("views of an intermediate alone", only_views_of_intermediate, lambda: [r(4, 5)]),
    Case("pieces of an intermediate", split_outputs, lambda: [r(5, 3)]),
    Case("one output twice", one_output_twice, lambda: [r(4, 5)]),
    Case("an intermediate and its detached self", detached, lambda: [r(4, 5, grad=True)]),
    Case("an expanded intermediate", lambda x: x.sum(0).expand(3, 5), lambda: [r(4, 5)]),
    Case("two expansions of one row", lambda x: (x.sum(0).expand(3, 5), x.sum(0).expand(2, 5)), lambda: [r(4, 5)]),
    # Equal computations are one to the compiler and two tensors to the user.
    Case("two equal results", equal_results, lambda: [r(4, 5)]),
    Case("two equal results in training", equal_results, lambda: [r(4, 5, grad=True)]),
    Case("two equal constants", lambda x: (torch.zeros(3), torch.zeros(3), x + 1), lambda: [r(4)]),
    Case("two equal products", lambda x: (x @ x, x @ x), lambda: [r(4, 4)]),
    Case("copies of an intermediate", copy_of_an_intermediate, lambda: [r(4, 5)]),
    Case("copies of an intermediate in training", copy_of_an_intermediate, lambda: [r(4, 5, grad=True)]),
    Case("copies of an intermediate, dynamic", copy_of_an_intermediate, lambda: [r(4, 5)], dynamic=True),
    Case("copies before and after a write", saved_for_a_written_input, lambda: [r(4, 5)]),
    Case("a copy of an input", lambda x: (x.clone(), x * 1, x + 0), lambda: [r(4, 5)]),
    Case("a transposed result", lambda x: x.t() * 2, lambda: [r(4, 5)]),
    Case("a permuted result", lambda x: (x + 1).permute(2, 0, 1), lambda: [r(2, 3, 4)]),
    Case("channels-last in and out", torch.relu, channels_last),
    Case("channels-last beside contiguous", lambda x, y: (x + y, y + x), lambda: [*channels_last(), r(2, 3, 4, 5)]),
    Case("dimensions of 1", lambda x: (x.sum(1, keepdim=True), x.t().unsqueeze(0) + 1), lambda: [r(4, 5)]),
    Case("made contiguous", lambda x: x.contiguous(), lambda: [r(5, 4).t()]),
    Case("contiguous already", lambda x: (x.contiguous(), x.to(torch.float32)), lambda: [r(5, 4)]),
    Case("a reshape that copies", lambda x: x.reshape(-1), lambda: [r(5, 4).t()]),
    Case("a reshape that does not", lambda x: x.reshape(-1), lambda: [r(5, 4)]),
    Case("expanded input", expanded_sum, lambda: [r(1, 5).expand(4, 5)]),
    Case("expanded input with an offset", expanded_sum, offset_of_expanded),
    Case("input of stride 0 everywhere", expanded_sum, lambda: [r(1).expand(4, 5)]),
    Case("input that overlaps itself", expanded_sum, internally_overlapping),
    Case("input with a storage offset", expanded_sum, lambda: [r(8, 5)[3:]]),
    Case("input with gaps", expanded_sum, lambda: [r(8, 10)[:, ::2]]),
    Case("misaligned input", expanded_sum, lambda: [torch.randn(4 * 33 + 3, device=r().device)[3:].view(4, 33)]),
    Case("misaligned input of a matrix product", lambda x, y: x @ y, lambda: [r(65)[1:].view(8, 8), r(8, 8)]),
    Case(
        "misaligned half precision",
        expanded_sum,
        lambda: [r(4 * 33 + 1, dtype=torch.bfloat16)[1:].view(4, 33)],
        tolerance=4e-2,
    ),
    # Dynamo's guards tell such inputs from others; Inductor reads their memory as it is.
    Case(
        "input that is a negative view", lambda x, y: (x * y, x[1:].sum()), lambda: [torch._neg_view(r(4, 5)), r(4, 5)]
    ),
    Case(
        "negative view in training",
        lambda x, w: (x.sin() * w).sum(0),
        lambda: [torch._neg_view(r(4, 5)), r(5, grad=True)],
    ),
    Case("written negative view", lambda x: x.mul_(2).sum(0), lambda: [torch._neg_view(r(4, 5))]),
    Case("imaginary part of a conjugate", lambda x: x * 2 + 1, lambda: [r(4, dtype=torch.complex64).conj().imag]),
    Case("empty input", expanded_sum, lambda: [r(0, 5)]),
    Case("empty last dimension", lambda x: (x * 2, x.sum(1)), lambda: [r(4, 0)]),
    Case("empty operands of a matrix product", lambda x, y: x @ y + 1, lambda: [r(4, 0), r(0, 3)]),
    Case("empty slice of an input returned", lambda x: (x[4:], x * 2), lambda: [r(4, 5)]),
    Case("input of 0 dimensions", lambda x, y: (x * 2, x + y), lambda: [r(), r(3)]),
    Case("a negated view that is only returned", lambda x, y: (x, y + 1), lambda: [negated(4, 5), r(4, 5)]),
    Case("a negated view that nothing takes", lambda x, y: y + 1, lambda: [negated(4, 5), r(4, 5, grad=True)]),
    Case("None and numbers", shapes_and_none, lambda: [r(4, 5)]),
    Case("None and numbers, dynamic", shapes_and_none, lambda: [r(4, 5)], dynamic=True),
    Case("a tree", tree, lambda: [r(4, 5)]),
    Case("nothing", lambda x: None, lambda: [r(4)]),
    Case("an empty tuple", lambda x: (), lambda: [r(4)]),
    Case("a constant", lambda x: torch.arange(3, device=x.device), lambda: [r(4)]),
    Case("a constant beside a result", lambda x: (torch.zeros(2, device=x.device), x * 2), lambda: [r(4)]),
    Case("a captured constant used", lambda x: x + torch.tensor([1.0, 2.0, 3.0], device=x.device), lambda: [r(4, 3)]),
    Case("a number as input", lambda x, n: x * n, lambda: [r(4, 5), 3]),
    Case("a float as input", lambda x, n: x * n, lambda: [r(4, 5), 0.3]),
    Case("a boolean and a string as input", lambda x, b, s: x + 1 if b and s == "s" else x, lambda: [r(4), True, "s"]),
    Case("None as input", lambda x, y: x if y is None else y, lambda: [r(4), None]),
    Case(
        "size from a size, dynamic", lambda x: x.new_ones(x.shape[0] * 2, x.shape[1]), lambda: [r(4, 5)], dynamic=True
    ),
    Case("aliases, dynamic", lambda x: (x.t(), (x * 2)[1:], x[2:]), lambda: [r(4, 5)], dynamic=True),
    Case(
        "chain in the arena, dynamic",
        lambda x, w: ((x @ w).sin() @ w).cos() @ w,
        lambda: [r(7, 5), r(5, 5)],
        dynamic=True,
    ),
    Case("chain in the arena", lambda x, w: ((x @ w).sin() @ w).cos() @ w, lambda: [r(7, 5), r(5, 5)]),
    Case("no operator but a gather", lambda x, i: x[i], lambda: [r(7, 5), indices(1, 1, 6)]),
    Case("indices of booleans", lambda x: x[x > 0].sum(), lambda: [r(7, 5)]),
]
