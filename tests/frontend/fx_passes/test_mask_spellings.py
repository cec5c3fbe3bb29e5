"""Constant masks, whatever functions, methods and operators a graph names in making them."""

import operator

import pytest
import torch
from bascule.frontend.fx_passes.attention_masks import ATTENTION, simplify_masks
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention as attention

N, WIDTH = 16, 8
LEAST = torch.finfo(torch.float32).min
aten = torch.ops.aten


def dunder(name):
    """A method as Dynamo of torch 2.11 writes it, called by its name."""
    return lambda *args: getattr(args[0], f"__{name}__")(*args[1:])


class Operators:
    """Of Python."""

    ge, le, eq, sub, both = operator.ge, operator.le, operator.eq, operator.sub, operator.and_
    where = torch.where
    expand = lambda x, *sizes: x.expand(*sizes)  # noqa: E731


class Dunders(Operators):
    ge, le, eq, sub, both = map(dunder, ("ge", "le", "eq", "sub", "and"))


class Methods(Operators):
    """Called on their first operand, as `x.le(y)`."""

    ge, le, eq, sub, both = (
        lambda x, y, name=name: getattr(x, name)(y) for name in ("ge", "le", "eq", "sub", "logical_and")
    )
    where = lambda mask, x, y: torch.full((), x).expand(mask.shape).where(mask, y)  # noqa: E731
    expand = lambda x, *sizes: x.broadcast_to(sizes)  # noqa: E731


class Functions(Operators):
    ge, le, eq, sub, both = torch.ge, torch.le, torch.eq, torch.sub, torch.logical_and
    where = lambda mask, x, y: torch.masked_fill(torch.full(mask.shape, x), torch.logical_not(mask), y)  # noqa: E731
    expand = lambda x, *sizes: torch.broadcast_to(x, sizes)  # noqa: E731


class Overloads(Operators):
    ge, le, eq = aten.ge.Tensor, aten.le.Tensor, aten.eq.Tensor
    sub, both = aten.sub.Tensor, aten.bitwise_and.Tensor
    where = lambda mask, x, y: aten.where.Scalar(mask, x, y)  # noqa: E731
    expand = lambda x, *sizes: aten.expand.default(x, sizes)  # noqa: E731


SPELLINGS = (Operators, Dunders, Methods, Functions, Overloads)


def sides(of):
    positions = of.sub(torch.arange(1, N + 1), torch.ones((), dtype=torch.int64))
    return positions[:, None], positions[None, :]


def causal(of):
    rows, columns = sides(of)
    return of.le(columns, rows)


def turned(of):
    rows, columns = sides(of)
    return of.expand(of.ge(rows, columns)[None, None], 2, 1, N, N)


def wide_window(of):
    """Of more keys than there are."""
    rows, columns = sides(of)
    near = of.ge(columns, of.sub(rows, torch.full((), N)))
    return of.both(of.both(rows.new_ones((), dtype=torch.bool), near), of.le(columns, rows))


def packed(of):
    """Sequences told apart by where positions begin again; there is one."""
    positions = torch.arange(N).unsqueeze(0).expand(2, -1)
    begins = torch.diff(positions, prepend=of.sub(positions[:, :1], torch.ones((), dtype=torch.int64)), dim=-1) != 1
    sequence = begins.cumsum(-1)
    batch = torch.arange(2)[:, None, None, None]
    rows, columns = torch.arange(N)[None, None, :, None], torch.arange(N)[None, None, None, :]
    return of.both(of.le(columns, rows), of.eq(sequence[batch, rows], sequence[batch, columns]))


def padded(of):
    """With a padding mask of ones, of which nothing is padding."""
    rows, columns = sides(of)
    padding = torch.ones(2, N, dtype=torch.int64)
    kept = of.eq(padding, torch.ones((), dtype=torch.int64))[:, None, None, :]
    return of.both(of.le(columns, rows)[None, None], kept)


def additive(of):
    return of.expand(of.where(causal(of)[None, None], 0.0, LEAST), 2, 1, N, N)


def nothing_hidden(of):
    rows, columns = sides(of)
    return of.ge(of.sub(rows, of.sub(columns, torch.full((), N))), torch.zeros((), dtype=torch.int64))


def nothing_added(of):
    return of.where(nothing_hidden(of), 0.0, LEAST)


MASKS = {
    **dict.fromkeys((causal, turned, wide_window, packed, padded, additive), (None, True)),
    **dict.fromkeys((nothing_hidden, nothing_added), (None, False)),
}


def inputs():
    torch.manual_seed(0)
    return [torch.randn(2, 3, N, WIDTH) for _ in range(3)]


def told(gm):
    """`attn_mask` and `is_causal` of the graph's attention, and whether the pass saw something."""
    (node,) = (node for node in gm.graph.nodes if node.target in ATTENTION)
    given = dict(zip(("query", "key", "value", "attn_mask"), node.args)) | node.kwargs
    return given.get("attn_mask"), given.get("is_causal", False)


def traced(function, *args, dynamic=False):
    found = []

    def backend(gm, _):
        simplify_masks(gm)
        gm.graph.lint()
        found.append(told(gm))
        return gm

    torch._dynamo.reset()
    result = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)(*args)
    return result, found[0]


@pytest.mark.parametrize("of", SPELLINGS, ids=lambda of: of.__name__)
@pytest.mark.parametrize("mask", MASKS, ids=lambda f: f.__name__)
def test_spellings(mask, of):
    q, k, v = inputs()
    result, found = traced(lambda q, k, v: attention(q, k, v, mask(of)), q, k, v)
    assert found == MASKS[mask]
    torch.testing.assert_close(result, attention(q, k, v, mask(of)))


class Built:
    """A graph made by hand. Each node is traced by what it calls."""

    def __init__(self):
        self.graph = torch.fx.Graph()
        self.mode = FakeTensorMode()

    def input(self, *sizes):
        node = self.graph.placeholder(f"x{len(self.graph.nodes)}")
        with self.mode:
            node.meta["example_value"] = torch.empty(sizes)
        return node

    def __call__(self, target, *args, **kwargs):
        node = self.graph.create_node(
            "call_method" if isinstance(target, str) else "call_function", target, args, kwargs
        )
        values, named = torch.fx.node.map_arg((args, kwargs), lambda x: x.meta["example_value"])
        with self.mode:
            value = (getattr(torch.Tensor, target) if isinstance(target, str) else target)(*values, **named)
        if value is not None:
            node.meta["example_value"] = value
        return node

    def told(self, mask, *others):
        """Says `attn_mask` and `is_causal` of an attention after the pass; the graph returns `others` too."""
        qkv = [self.input(2, 3, N, WIDTH) for _ in range(3)]
        self.graph.output((self(attention, *qkv, mask), *others))
        gm = torch.fx.GraphModule({}, self.graph)
        simplify_masks(gm)
        return told(gm)


NAMES = {
    "dunder methods": ("__ge__", "__eq__", "__and__"),
    "functions of operator": (operator.__ge__, operator.eq, operator.__and__),
    "methods": ("ge", "eq", "logical_and"),
    "descriptors": (torch.Tensor.__ge__, torch.Tensor.__eq__, torch.Tensor.__and__),
    "functions": (torch.greater_equal, torch.eq, torch.bitwise_and),
    "packets": (aten.ge, aten.eq, aten.bitwise_and),
    "overloads": (aten.ge.Tensor, aten.eq.Tensor, aten.bitwise_and.Tensor),
}


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("device", ["cpu", "cuda:0", torch.device("cuda")], ids=repr)
def test_names_of_graphs(names, device):
    """Those of torch 2.11's graphs, and others, of tensors of a GPU that there need not be."""
    ge, eq, both = NAMES[names]
    make = Built()
    positions = make(torch.arange, N, device="cpu")
    rows, columns = make("unsqueeze", positions, 1), make(operator.getitem, positions, (None, slice(None)))
    one = make("new_ones", positions, (N,))
    moved = make("to", make(eq, one, one), "cpu")
    mask = make(both, make(ge, rows, columns), moved)
    positions.update_kwarg("device", device)
    moved.update_arg(1, device)
    assert make.told(mask) == (None, True)


def ones():
    return torch.ones(N, N, dtype=torch.bool)


@torch.library.custom_op("bascule_tests::hide", mutates_args={"mask"})
def hide(mask: torch.Tensor) -> None:
    mask[1:] = False


@hide.register_fake
def _(mask):
    return None


CALLED = []


@torch.compiler.allow_in_graph
def of_the_user(mask):
    CALLED.append(type(mask))
    return mask.clone()


def at_a_place(mask):
    mask[0, 1] = False


def at_indices(mask):
    mask[torch.arange(3)] = False


WRITES = {
    "fill_": lambda mask: mask[:, 9:].fill_(False),
    "setitem": at_a_place,
    "at indices": at_indices,
    "iand": lambda mask: operator.iand(mask, torch.arange(N) < 9),
    "__iand__": lambda mask: mask.__iand__(torch.arange(N) < 9),
    "out": lambda mask: torch.logical_not(mask, out=mask),
    "copy_": lambda mask: mask[0].copy_(torch.arange(N) < 9),
    "index_put_": lambda mask: mask.index_put_((torch.arange(3),), torch.zeros((), dtype=torch.bool)),
    "overload": lambda mask: aten.logical_not_.default(mask),
    "of a view": lambda mask: mask.view(-1)[3:].logical_not_(),
    "custom operator": lambda mask: hide(mask),
    "masked_fill_": lambda mask: mask.masked_fill_(torch.arange(N) > 9, False),
}


@pytest.mark.parametrize("write", WRITES)
def test_written_masks_stay(write):
    def function(q, k, v):
        mask = ones()
        WRITES[write](mask)
        return attention(q, k, v, mask)

    q, k, v = inputs()
    result, (mask, is_causal) = traced(function, q, k, v)
    assert mask is not None and not is_causal
    torch.testing.assert_close(result, function(q, k, v))


@pytest.mark.parametrize(
    "write",
    [
        lambda make, x: make(operator.iadd, x, 1.0),
        lambda make, x: make("__iadd__", x, 1.0),
        lambda make, x: make(operator.setitem, x, 0, 1.0),
        lambda make, x: make(torch.add, x, 1.0, out=x),
        lambda make, x: make(torch.nn.functional.relu, x, True),
        lambda make, x: make(torch.nn.functional.threshold, x, 1.0, 2.0, inplace=True),
        lambda make, x: make(aten.mul_.Tensor, x, x),
        lambda make, x: make("t_", x),
    ],
)
def test_writes_by_name(write):
    make = Built()
    mask = make(torch.zeros, (N, N))
    other = make(operator.mul, make("view", mask, N, N), 2.0)
    write(make, make("view", mask, N, N))
    assert make.told(mask, other) == (mask, False)


STAY = {
    "drawn": lambda q: torch.rand(N, N) < 2,
    "dropped": lambda q: torch.nn.functional.dropout(torch.zeros(N, N), 0.5),
    "permuted": lambda q: torch.randperm(N)[None, :] >= 0,
    "given": lambda q: q[0, 0, :, :1] == q[0, 0, :, :1],
    "unwritten": lambda q: torch.zeros(N, N).new_empty((N, N)) == 0,
    "of another function": lambda q: of_the_user(ones()),
}


@pytest.mark.parametrize("mask", STAY)
def test_others_stay(mask):
    _, (given, is_causal) = traced(lambda q, k, v: attention(q, k, v, STAY[mask](q)), *inputs())
    assert given is not None and not is_causal


def test_the_users_functions_are_not_called():
    def function(q, k, v):
        return attention(q, k, v, of_the_user(ones()))

    def untouched(gm, _):
        return gm

    counts = []
    for run in (lambda: torch.compile(function, backend=untouched)(*inputs()), lambda: traced(function, *inputs())):
        torch._dynamo.reset()
        CALLED.clear()
        run()
        counts.append(len(CALLED))
    assert counts[0] == counts[1]


def test_large_masks_stay(monkeypatch):
    from bascule.frontend.dynamo_graphs import constants

    monkeypatch.setattr(constants, "LARGEST", N * N - 1)
    _, (mask, _) = traced(lambda q, k, v: attention(q, k, v, causal(Operators)), *inputs())
    assert mask is not None


def test_repetition_takes_no_memory(monkeypatch):
    from bascule.frontend.dynamo_graphs import constants

    monkeypatch.setattr(constants, "LARGEST", N * N + 8 * N)
    assert traced(lambda q, k, v: attention(q, k, v, turned(Operators)), *inputs())[1] == (None, True)


def test_sizes_that_vary_stay():
    def function(q, k, v):
        positions = torch.arange(q.shape[-2])
        return attention(q, k, v, positions[None, :].__le__(positions[:, None]))

    _, (mask, _) = traced(function, *inputs(), dynamic=True)
    assert mask is not None


def test_gradients_stay_on():
    """A call that sets a mode is not run."""

    def function(q, k, v):
        with torch.no_grad():
            mask = causal(Operators)
        return attention(q, k, v, mask)

    assert torch.is_grad_enabled()
    assert traced(function, *inputs())[1] == (None, True)
    assert torch.is_grad_enabled()


def models():
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 1}
    gpt2 = transformers.GPT2Config(n_layer=2, n_embd=16, n_head=2, **sizes)
    llama = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=16, intermediate_size=24, num_attention_heads=2, num_key_value_heads=1, **sizes
    )
    return {"gpt2": lambda: transformers.GPT2LMHeadModel(gpt2), "llama": lambda: transformers.LlamaForCausalLM(llama)}


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_models(name):
    model, found = models()[name]().eval(), []

    def backend(gm, _):
        assert simplify_masks(gm) == 2
        found.extend(node.kwargs for node in gm.graph.nodes if node.target in ATTENTION)
        return gm

    torch._dynamo.reset()
    ids = torch.arange(24).view(2, 12)
    with torch.no_grad():
        got = torch.compile(model, backend=backend, dynamic=False)(ids, use_cache=False).logits
        torch.testing.assert_close(got, model(ids, use_cache=False).logits)
    assert [(each["attn_mask"], each["is_causal"]) for each in found] == [(None, True)] * 2
