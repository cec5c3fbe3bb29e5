"""Inputs and buffers that are written: whole, through views, given twice, overlapping; under no_grad and in training."""

import torch

from tests.wrapper.harness import Case, indices, r


def add_in_place(x, y):
    x.add_(y)
    return x * 2


def mutate_view(x):
    x[1:3].mul_(2)
    return x.sum(0)


def mutate_twice(x, y):
    x.add_(y)
    z = x * y
    x.mul_(z)
    return z


def mutate_transposed(x, y):
    x.t().add_(y)
    return x + 1


def swap(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)


def rotate(x, y, z):
    t = x.clone()
    x.copy_(y)
    y.copy_(z)
    z.copy_(t)


def mutate_by_shifted_self(x):
    x[1:] = x[:-1] + x[1:]
    return x.sum()


def mutate_by_transposed_self(x):
    x.copy_(x.t() * 2)


def read_before_and_after(x, y):
    a = x @ y
    x.mul_(2)
    return a, x @ y


def put_rows(cache, rows, index):
    cache[index] = rows
    return cache.sum(-1)


def put_then_read_old(cache, rows, index):
    old = cache * 1
    cache[index] = rows
    return old - cache


def accumulate(total, values, index):
    total.index_add_(0, index, values)
    return total.relu()


def optimizer(ps, gs, ms):
    for p, g, m in zip(ps, gs, ms):
        m.mul_(0.9).add_(g, alpha=0.1)
        p.sub_(m * 0.01)


def leaf_under_no_grad(p, g):
    with torch.no_grad():
        p.sub_(g)
    return p * 2


def view_chain(x):
    y = x.view(2, 6)[1].view(2, 3)
    y.t()[0].add_(1)
    return x * y.sum()


def two_views_of_one(x):
    a, b = x[:3], x[2:]
    a.add_(1)
    b.mul_(2)
    return a * 1, b * 1


def through_diagonal(x):
    x.diagonal().fill_(0)
    return x.sum(1)


def through_as_strided(x):
    x.as_strided((2, 2), (5, 1), 1).add_(3)
    return x * 1


def through_expand(x):
    return x.expand(3, 4).sum(0).add_(x.mul_(2))


def clamp_then_view(x):
    x.clamp_(min=0)
    return x.view(-1)[::2], x.sum()


def converts(x, y):
    x.copy_(y)
    return x


def where_mask(x):
    x[x > 0] = 0
    return x.sum()


def scatter(x, index, src):
    x.scatter_(1, index, src)
    return x * 2


def list_of_inputs(xs):
    for x in xs:
        x.mul_(2)
    return sum(x.sum() for x in xs)


def dictionary(d):
    d["a"].add_(d["b"])
    return {"sum": d["a"].sum(), "b": d["b"] * 1}


def metadata_only(x):
    x.t_()
    return x + 1


def data_and_metadata(x):
    x.mul_(2)
    x.transpose_(0, 1)
    return x + 1


def unsqueeze_in_place(x):
    x.unsqueeze_(0)
    return x * 2


def set_to_other(x, y):
    x.set_(y)
    return x * 2


def set_to_fresh(x):
    y = x * 2
    x.set_(y)
    return x + 1


def set_then_mutate(x, y):
    x.set_(y * 1)
    x.add_(1)
    return x.sum()


def resize_intermediate(x):
    y = x * 2
    y.resize_(2, 3)
    return y + 1


def resize_input(x, y):
    x.resize_(3, 4)
    x.copy_(y)
    return x * 2


def under_no_grad_inside(x, w):
    with torch.no_grad():
        x.add_(1)
    return (x * w).sum()


def detach_mutated(x):
    y = x.detach()
    y.add_(1)
    return x * 2


def pair(x):
    return [x, x]


def base_and_view():
    x = r(4, 5)
    return [x, x[0]]


def overlapping_halves():
    x = r(6, 5)
    return [x[:4], x[2:]]


def disjoint_halves():
    x = r(6, 5)
    return [x[:3], x[3:]]


def interleaved():
    x = r(8, 4)
    return [x[::2], x[1::2]]


def graph_views_of_one_leaf():
    x = r(6, 5, grad=True) * 1  # no leaf: its views may be written
    return [x[:3], x[3:]]


CASES = [
    Case("whole", add_in_place, lambda: [r(4, 5), r(4, 5)]),
    Case("through a slice", mutate_view, lambda: [r(6, 3)]),
    Case("twice", mutate_twice, lambda: [r(4, 5), r(4, 5)]),
    Case("and returned", lambda x: x.add_(1), lambda: [r(4, 5)]),
    Case("and returned beside its sum", lambda x: (x.add_(1), x.sum()), lambda: [r(4, 5)]),
    Case("through its transpose", mutate_transposed, lambda: [r(4, 5), r(5, 4)]),
    Case("two swapped", swap, lambda: [r(4, 5), r(4, 5)]),
    Case("three rotated", rotate, lambda: [r(4, 5), r(4, 5), r(4, 5)]),
    Case("by its neighbours", mutate_by_shifted_self, lambda: [r(9)]),
    Case("by its transpose", mutate_by_transposed_self, lambda: [r(5, 5)]),
    Case("read before and after", read_before_and_after, lambda: [r(4, 4), r(4, 4)]),
    Case("strided", add_in_place, lambda: [r(5, 4).t(), r(4, 5)]),
    Case("a slice with a step", add_in_place, lambda: [r(8, 5)[::2], r(4, 5)]),
    Case("rows put", put_rows, lambda: [r(6, 3), r(2, 3), indices(4, 1)]),
    Case("rows put, old ones needed", put_then_read_old, lambda: [r(6, 3), r(2, 3), indices(4, 1)]),
    Case(
        "rows put more than once",
        put_rows,
        lambda: [r(6, 3), r(1, 3).expand(3, 3).contiguous(), indices(4, 1, 4)],
    ),
    Case("rows added", accumulate, lambda: [r(6, 3), r(3, 3), indices(4, 1, 4)]),
    Case("an optimizer's lists", optimizer, lambda: [[r(3, 4), r(7)], [r(3, 4), r(7)], [r(3, 4), r(7)]]),
    Case("by a broadcast value", lambda x, y: x.mul_(y), lambda: [r(4, 5), r(5)]),
    Case("by a value that is converted", lambda x, y: x.copy_(y), lambda: [r(4, 5), r(4, 5, dtype=torch.float64)]),
    Case("to half precision", converts, lambda: [r(4, 5, dtype=torch.bfloat16), r(4, 5)]),
    Case("filled", lambda x: x.zero_(), lambda: [r(4, 5)]),
    Case("a number of 0 dimensions", lambda x, y: x.add_(y.sum()), lambda: [r(), r(3)]),
    Case("empty", lambda x: x.add_(1).sum(), lambda: [r(0, 5)]),
    Case("misaligned", add_in_place, lambda: [r(65)[1:].view(8, 8), r(65)[1:].view(8, 8)]),
    Case("integers", lambda x: x.add_(1).bitwise_and_(3), lambda: [torch.arange(12, device=r().device).view(3, 4)]),
    Case("booleans", lambda x, y: x.logical_xor_(y > 0), lambda: [r(4) > 0, r(4)]),
    Case("a chain of views", view_chain, lambda: [r(12)]),
    Case("two overlapping views made inside", two_views_of_one, lambda: [r(5, 3)]),
    Case("the diagonal", through_diagonal, lambda: [r(4, 4)]),
    Case("through as_strided", through_as_strided, lambda: [r(3, 4)]),
    Case("read through an expanded view first", through_expand, lambda: [r(4)]),
    Case("and views of it returned", clamp_then_view, lambda: [r(4, 5)]),
    Case("under a mask", where_mask, lambda: [r(4, 5)]),
    Case("scattered into", scatter, lambda: [r(3, 5), indices(0, 2, 4, 1, 1, 3).view(3, 2), r(3, 2)]),
    Case("a list of inputs", list_of_inputs, lambda: [[r(3), r(4), r(2, 2)]]),
    Case("a dictionary of inputs", dictionary, lambda: [{"a": r(3), "b": r(3)}]),
    Case("dynamic sizes", add_in_place, lambda: [r(4, 5), r(4, 5)], dynamic=True),
    Case("a slice, dynamic sizes", mutate_view, lambda: [r(6, 3)], dynamic=True),
    # Dynamo breaks the graph at what changes an input's metadata.
    Case("transpose in place", metadata_only, lambda: [r(4, 5)], fullgraph=False),
    Case("written, then transposed in place", data_and_metadata, lambda: [r(4, 5)], fullgraph=False),
    Case("unsqueezed in place", unsqueeze_in_place, lambda: [r(4, 5)], fullgraph=False),
    Case("set_ to another input", set_to_other, lambda: [r(4, 5), r(4, 5)], fullgraph=False),
    Case("set_ to an intermediate", set_to_fresh, lambda: [r(4, 5)], fullgraph=False),
    Case("set_, then written", set_then_mutate, lambda: [r(4, 5), r(4, 5)], fullgraph=False),
    Case("resize_ of an intermediate", resize_intermediate, lambda: [r(4, 5)], fullgraph=False),
    Case("resize_ of an input", resize_input, lambda: [r(2), r(3, 4)], fullgraph=False),
    Case("given twice", add_in_place, lambda: pair(r(4, 5))),
    Case("given twice, only read", lambda x, y: x * y + 1, lambda: pair(r(4, 5))),
    Case("overlaps another input", lambda x, y: x.add_(1).sum() + y, overlapping_halves),
    Case("overlaps another input, both written", lambda x, y: (x.add_(1), y.mul_(2))[1] * 1, overlapping_halves),
    Case(
        "overlaps another input, both written, dynamic sizes",
        lambda x, y: (x.add_(1), y.mul_(2))[1] * 1,
        overlapping_halves,
        dynamic=True,
    ),
    Case("beside another input of one storage", lambda x, y: x.add_(y) * 1, disjoint_halves),
    Case("interleaved with another input", lambda x, y: (x.add_(1) * 1, y.mul_(2) * 1), interleaved),
    Case("base, its view is an input", lambda x, y: x.add_(1)[0] * y, base_and_view),
    Case("view, its base is an input", lambda x, y: (y.mul_(3), x * 1)[1], base_and_view),
    Case("views of one graph tensor, one written", lambda x, y: (x.mul_(2), (x * y).sum())[1], graph_views_of_one_leaf),
    Case("leaf under no_grad", leaf_under_no_grad, lambda: [r(4, 5, grad=True), r(4, 5)]),
    Case("leaf, the call under no_grad", add_in_place, lambda: [r(4, 5, grad=True), r(4, 5)], grad=False),
    Case("plain input in training", lambda x, b: (b.mul_(0.9), x * b)[1], lambda: [r(4, 5, grad=True), r(4, 5)]),
    Case("under no_grad inside, in training", under_no_grad_inside, lambda: [r(4, 5), r(4, 5, grad=True)]),
    Case("non-leaf in training", lambda x, w: (x.add_(w), x * 2)[1], lambda: [r(4, grad=True) * 1, r(4, grad=True)]),
    Case("non-leaf given a graph by the call", lambda x, w: x.add_(w), lambda: [r(4), r(4, grad=True)]),
    Case("detached alias", detach_mutated, lambda: [r(4, 5)]),
]
