"""Random modules that are trained: shared parameters, buffers that are written, outputs that alias inputs, parameters and each other, hooks,
checkpoints, functions of one's own, writes in place, losses over some of the outputs, gradients that are accumulated, an optimizer.

A module is drawn line by line: of the pieces below, those that eager takes for the values there are. Outputs, gradients, parameters, buffers and
inputs are compared after each step; and which outputs share memory, and with what.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.generators.elementwise import differences
from tests.wrapper.harness import sharing, strides

ROWS = 4, 7  # of a batch; the second one where sizes are dynamic
WIDTHS = 4, 6, 8
MOST = 2000  # elements of a value
TIMES = 50.0  # as many times eager's largest error in a tensor may a result be off


Seen = list[tuple[str, Any]]  # by name


class Scaled(torch.autograd.Function):
    """Its gradient is that of another function, so that it shows whose was taken; one of its outputs has none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        made, places = x * w.sin(), (x > 0).to(x.dtype)
        ctx.save_for_backward(x, w, made)
        ctx.mark_non_differentiable(places)
        return made, places

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, w, made = ctx.saved_tensors
        of_w = (grad * x + made).sum_to_size(w.shape) if ctx.needs_input_grad[1] else None
        return grad * 3 * w if ctx.needs_input_grad[0] else None, of_w


@torch.library.custom_op("bascule_tests::added_rows", mutates_args=("total",))
def added_rows(total: Tensor, x: Tensor) -> Tensor:
    total.add_(x.sum(0))
    return x * 0.5


@added_rows.register_fake
def _(total: Tensor, x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("bascule_tests::halved", mutates_args=())
def halved(x: Tensor) -> Tensor:
    return x * 0.5


halved.register_fake(torch.empty_like)
halved.register_autograd(lambda ctx, grad: grad * 0.5)

# {a}, {b}: values; {o}: the new one. {square}, {wide}, {row}: parameters for the last dimension of {a}, which is {last}; {buffer}: a buffer as
# long as that; {rows}: places among its rows; {classes}: one of {last} for each.
NEW = """\
{o} = F.linear({a}, {square}, {row})
{o} = {a} @ {wide}.t()
{o} = F.layer_norm({a}, ({last},), {row}, {row})
{o} = F.batch_norm({a}, {buffer}, {buffer}.abs() + 1, {row}, None, True)
{o} = F.batch_norm({a}, self.mean{last}, self.var{last}, {row}, {row}, self.training, 0.3)
{o} = F.rms_norm({a}, ({last},), {row})
{o} = F.gelu({a}) * {row}
{o} = torch.softmax({a} @ {square}, -1) * {a}
{o} = torch.sigmoid({a}) * torch.tanh({b})
{o} = {a} + {b}
{o} = {a} - {b}.mean(0)
{o} = torch.cat([{a}, {b}], -1)
{o} = torch.stack([{a}, {b}.sin()]).sum(0)
{o} = {a}.cumsum(0) * 0.3
{o} = {a} / ({a}.square().sum(-1, keepdim=True) + 1).sqrt()
{o} = torch.logsumexp({a}, 0) + {a}
{o} = {a}[{rows}]
{o} = {a}.index_add(0, {rows}, {b}[{rows}])
{o} = F.embedding({rows}, {square}) + {row}
{o} = {a}.sort(0).values + {a}.amax(-1, keepdim=True)
{o} = torch.where({a} > {row}, {a}, {b})
{o} = F.conv1d({a}.t()[None], {square}[:, :, None], {row})[0].t()
{o} = F.scaled_dot_product_attention({a}[None, None], {b}[None, None], {a}[None, None] * 0.5, is_causal=True)[0, 0]
{o} = checkpoint(lambda x, w: torch.tanh(x @ w) @ w, {a}, {square}, use_reentrant=False)
{o} = checkpoint(lambda x: F.layer_norm(x, ({last},), {row}).relu() + {b}, {a}, use_reentrant=False)
{o}, z = Scaled.apply({a}, {row})
{o} = Scaled.apply({a}, {row})[1] * {b}
{o} = torch.cond({a}.sum() > 0, lambda x: x * 2, lambda x: x.sin(), ({a},))
{o} = added_rows({buffer}, {a}.detach()) + {b}
{o} = halved({a})
{o} = torch.utils.checkpoint.checkpoint(torch.sin, {a}, use_reentrant=False) * {a}.detach()
{o} = F.dropout({a}, 0.3, self.training)
{o} = torch.vmap(lambda x: x * {row} - x.mean())({a})
{o} = torch.func.grad(lambda x: (x @ {square}).tanh().sum())({a})
{o} = F.cross_entropy({a}, {classes}, reduction="none")[:, None] * {row}
{o} = ({a}.unsqueeze(1) - {b}.unsqueeze(0)).abs().mean(1)
{o} = F.pad({a}, (1, 1), mode="constant", value=0.5)[:, 1:-1]
{o} = {a}.clone()
{o} = {a} * 1""".splitlines()
VIEWS = """\
{o} = {a}.t()
{o} = {a}[1:]
{o} = {a}[:, ::2]
{o} = {a}.view(-1)
{o} = {a}[0]
{o} = {a}.unsqueeze(0)
{o} = {a}.detach()
{o} = {a}.expand(2, *{a}.shape)
{o} = {a}.chunk(2, -1)[1]
{o} = {a}.unflatten(-1, (2, -1)).transpose(0, 1)
{o} = {a}.view_as({a})
{o} = {square}.t()
{o} = {row}
{o} = {buffer}
{o} = {a}""".splitlines()
WRITES = """\
{a}.mul_({row})
{a}.add_(1)
{a}.t().mul_(2)
{a}[1:].add_({a}[:-1].detach())
{a}[..., 0] = 0.5
{a}.relu_()
{a}.copy_({b})
{a}.index_put_(({rows},), {b}[{rows}] * 0.1, accumulate=True)
{buffer}.mul_(0.9).add_({a}.detach().mean(0))
self.buffer{last} = {buffer} * 0.5 + {a}.detach().amax(0)
self.count += 1
{a}.register_hook(lambda g: g * 2)
with torch.no_grad(): {buffer}.copy_({a}[0])
with torch.no_grad(): {row}.mul_(0.99)""".splitlines()
OPTIMIZERS = {
    "SGD": partial(torch.optim.SGD, lr=0.05, momentum=0.9),
    "AdamW": partial(torch.optim.AdamW, lr=0.01),
    "RMSprop": partial(torch.optim.RMSprop, lr=0.01, foreach=True),
}
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"target": "interpret"},
    {"direct_calls": False},
    {"disable_fx_passes": ["outline-regions"]},
    {"tiers": True},
)


class Fields(dict[str, str]):
    """Texts for the fields of a piece, chosen when it asks for them."""

    def __init__(self, draft: "Draft", given: dict[str, str]):
        super().__init__(given)
        self.draft = draft

    def __missing__(self, name: str) -> str:
        random, last = (
            self.draft.random,
            (self.draft.values[self["a"]].shape or (1,))[-1],
        )  # eager says what takes one number
        number = random.randrange(2)  # so that parameters are shared
        match name:
            case "last":
                return str(last)
            case "square":
                return self.draft.parameter(f"square{last}_{number}", (last, last))
            case "wide":
                width = random.choice(WIDTHS)
                return self.draft.parameter(f"wide{last}_{width}", (width, last))
            case "row":
                return self.draft.parameter(f"row{last}_{number}", (last,))
            case "buffer":
                return f"self.buffer{last}"
            case "rows":
                return f"i % {self['a']}.shape[0]"
            case "classes":
                return f"torch.arange({self['a']}.shape[0]) % {last}"
        raise KeyError(name)


class Draft:
    """A module under construction: its values for the inputs of a first call, computed as it grows."""

    def __init__(self, random: Random):
        self.random, self.lines = random, list[str]()
        self.parameters: dict[str, tuple[int, ...]] = {}
        self.values: dict[str, Tensor] = {}

    def parameter(self, name: str, shape: tuple[int, ...]) -> str:
        self.parameters.setdefault(name, shape)
        return f"self.{name}"

    def grow(self, train: "Trained") -> "Trained":
        """`train` with a line more, if it is one that eager takes."""
        pieces = self.random.choices((NEW, VIEWS, WRITES), (6, 2, 2))[0]
        before = dict(self.parameters)
        names = [*self.values]
        a, b = (self.random.choice(names + names[-3:]) for _ in "ab")
        new = f"v{len(train.lines)}"
        line = self.random.choice(pieces).format_map(Fields(self, {"a": a, "b": b, "o": new}))
        grown = replace(train, lines=(*train.lines, line), parameters=tuple(self.parameters.items()))
        values = grown.values(new)
        if values is None or not 0 < values[-1].numel() <= MOST or not torch.isfinite(values[-1]).all():
            self.parameters = before
            return train
        if line.startswith(f"{new}"):
            self.values[new] = values[-1]
        return grown


@dataclass(frozen=True)
class Trained:
    """A module and how it is trained. `losses`: the outputs that each step's loss is over; `accumulated`: backwards before the optimizer."""

    lines: tuple[str, ...] = ()
    parameters: tuple[tuple[str, tuple[int, ...]], ...] = ()
    outputs: tuple[str, ...] = ()
    losses: tuple[tuple[int, ...], ...] = ()
    optimizer: str = "SGD"
    accumulated: int = 1
    compiled_optimizer: bool = False
    needs: bool = False  # whether the input requires gradients
    hooked: bool = False  # whether parameters have hooks
    dynamic: bool = False
    option: int = 0
    seed: int = 0

    def text(self, outputs: tuple[str, ...]) -> str:
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def forward(self, x, y, i):\n{body}    return [{', '.join(outputs)}]\n"

    def source(self) -> str:
        text = "".join(f"# {line}\n" for line in self.text(self.outputs).splitlines())
        return f"from tests.generators.modules import Trained\n\n\ndef test_it():\n    assert not {self!r}.differences('bascule')\n\n\n{text}"

    def module(self, dtype: torch.dtype, outputs: tuple[str, ...]) -> torch.nn.Module:
        names: dict[str, Any] = {"torch": torch, "F": F, "checkpoint": checkpoint}
        names |= {"Scaled": Scaled, "added_rows": added_rows, "halved": halved}
        exec(compile(self.text(outputs), f"<module {self.seed}>", "exec"), names)
        made = type("Drawn", (torch.nn.Module,), {"forward": names["forward"]})()
        generator = torch.Generator().manual_seed(self.seed)
        for name, shape in sorted(self.parameters):
            number = torch.randn(shape, generator=generator) * (0.5 if len(shape) == 2 else 1)
            made.register_parameter(name, torch.nn.Parameter(number.to(dtype)))
        for width in range(1, 17):
            for name, number in {"buffer": 0.1, "mean": 0.0, "var": 1.0}.items():
                made.register_buffer(f"{name}{width}", torch.full((width,), number, dtype=dtype))
        made.register_buffer("count", torch.zeros((), dtype=torch.int64))
        return made

    def inputs(self, rows: int, step: int, dtype: torch.dtype) -> list[Tensor]:
        generator = torch.Generator().manual_seed(self.seed + 31 * step)
        x, y = (torch.randn(rows, width, generator=generator).to(dtype) for width in WIDTHS[:2])
        places = torch.randint(0, 60, (rows,), generator=generator)
        return [x.requires_grad_(self.needs), y, places]

    def values(self, new: str) -> list[Tensor] | None:
        """The results of the module, the value `new` if its last line makes one; None where eager does not take it."""
        outputs = (new,) if self.lines[-1].startswith(new) else ("x * 0 + 1",)
        try:
            torch.manual_seed(self.seed)
            found = self.module(torch.float32, outputs)(*self.inputs(ROWS[0], 0, torch.float32))
            return found if all(isinstance(v, Tensor) and v.is_floating_point() for v in found) else None
        except Exception:  # of any kind: sizes that do not fit, a write that autograd refuses
            return None

    def run(self, backend: str | None, dtype: torch.dtype = torch.float32) -> Seen:
        """All that is seen of the training, by name."""
        torch._dynamo.reset()
        torch.manual_seed(self.seed)
        module = self.module(dtype, self.outputs)
        if self.hooked:
            for n, parameter in enumerate(module.parameters()):
                parameter.register_hook(lambda g, n=n: g if g is None else g * (1 + n % 3))
        optimizer = OPTIMIZERS[self.optimizer](list(module.parameters())) if self.parameters else None
        function, step = module, optimizer.step if optimizer else None
        if backend is not None:
            options = {"on_error": "raise", "cache": False, "random": "eager", **OPTIONS[self.option]}
            more = {"options": options} if backend == "bascule" else {}
            function = torch.compile(module, backend=backend, dynamic=self.dynamic, **more)
            if self.compiled_optimizer and optimizer:
                step = torch.compile(optimizer.step, backend=backend, **more)
        seen: Seen = []
        for number, chosen in enumerate(self.losses):
            inputs = self.inputs(ROWS[number % 2 if self.dynamic else 0], number, dtype)
            outputs = function(*inputs)
            seen += self._state(number, module, inputs, outputs)
            ends = [outputs[n] for n in chosen if outputs[n].requires_grad]
            if ends:
                tangents = [torch.linspace(-1, 2, y.numel()).to(y.dtype).view(y.shape) for y in ends]
                torch.autograd.backward(ends, tangents)
            named = [*([("x", inputs[0])] if self.needs and inputs[0].is_leaf else []), *module.named_parameters()]
            grads = [(name, None if p.grad is None else p.grad.clone()) for name, p in named]
            seen += [(f"step {number}, gradient of {name}", value) for name, value in grads]
            for parameter in module.parameters():  # AOTAutograd gives zeros for some that nothing depends on
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            if step and number % self.accumulated == self.accumulated - 1:
                step()
                optimizer.zero_grad()
                seen += [(f"step {number}, new {name}", p.detach().clone()) for name, p in module.named_parameters()]
        return seen

    def _state(self, number: int, module: torch.nn.Module, inputs: list[Tensor], outputs: list[Tensor]) -> Seen:
        seen: Seen = [(f"step {number}, output {n}", v.detach().clone()) for n, v in enumerate(outputs)]
        seen += [(f"step {number}, input {n}", v.detach().clone()) for n, v in enumerate(inputs)]
        seen += [(f"step {number}, {name}", v.clone()) for name, v in module.named_buffers()]
        seen += [(f"step {number}, then {name}", v.detach().clone()) for name, v in module.named_parameters()]
        memory = [*inputs, *module.parameters(), *module.buffers(), *outputs]
        told = {
            "strides": [strides(v) for v in outputs],
            "offsets": [v.storage_offset() for v in outputs],
            "who needs gradients": [v.requires_grad for v in outputs],
            "who shares memory": sharing(memory),
        }
        return seen + [(f"step {number}, {what}", value) for what, value in told.items()]

    def differences(self, backend: str) -> list[str]:
        try:
            want, exact = self.run(None), self.run(None, torch.float64)
        except Exception:  # of any kind: nothing that can be trained
            return []
        if backend == "aot_eager":  # either with what is saved by default, or by min-cut, is PyTorch's doing
            backends = ("aot_eager", "aot_eager_decomp_partition")
            return next(filter(None, (self._compared(one, want, exact) for one in backends)), [])
        return self._compared(backend, want, exact)

    def _compared(self, backend: str, want: Seen, exact: Seen) -> list[str]:
        found: list[str] = []
        for (name, got), (_, wanted), (_, best) in zip(self.run(backend), want, exact, strict=True):
            if not isinstance(wanted, Tensor):
                if _is_zero(got) and wanted is None:
                    continue
                found += [f"{name}: {got}, not {wanted}"] if (got is None) != (wanted is None) or got != wanted else []
            elif not isinstance(got, Tensor):
                found.append(f"{name}: {got}, not a tensor")
            else:
                off = (wanted.double() - best.double()).abs().max().item() if wanted.numel() else 0.0
                scale = max(1.0, best.double().abs().max().item()) if wanted.numel() else 1.0
                terms = TIMES * (off / torch.finfo(torch.float32).eps + scale)
                found += differences(name, got, wanted, best, terms=terms, zero_signs=False)
        return found

    def smaller(self) -> Iterator["Trained"]:
        for n in range(len(self.outputs) - 1, -1, -1):
            if len(self.outputs) > 1:
                kept = [tuple(m - (m > n) for m in chosen if m != n) for chosen in self.losses]
                yield replace(self, outputs=self.outputs[:n] + self.outputs[n + 1 :], losses=tuple(kept))
        for n in range(len(self.lines) - 1, -1, -1):
            lines = self.lines[:n] + ("pass",) + self.lines[n + 1 :]
            if self.lines[n] != "pass":
                yield replace(self, lines=lines)
        yield from (replace(self, losses=self.losses[:-1]) for _ in self.losses[1:])
        for name in ("dynamic", "hooked", "compiled_optimizer", "needs", "option"):
            if getattr(self, name):
                yield replace(self, **{name: type(getattr(self, name))()})


def _is_zero(x: Any) -> bool:
    return isinstance(x, Tensor) and not x.any()


def draw(random: Random) -> Trained:
    while True:
        made = _drawn(random)
        try:
            made.run(None)
        except Exception:  # of any kind: a write to what a backward needs, for example
            continue
        return made


def _drawn(random: Random) -> Trained:
    draft, made = Draft(random), Trained(seed=random.randrange(1 << 30), needs=random.random() < 0.4)
    draft.values = dict(zip("xy", made.inputs(ROWS[0], 0, torch.float32)))
    wanted = random.choice([3, 5, 8, 12])
    for _ in range(8 * wanted):
        if len(made.lines) < wanted:
            made = draft.grow(made)
    names = [*draft.values]
    outputs = tuple(random.choices(names, k=random.randint(0, 2))) + tuple(names[-random.randint(1, 3) :])
    count = range(len(outputs))
    losses = tuple(tuple(random.sample(count, random.randint(1, len(count)))) for _ in range(random.choice([2, 3])))
    return replace(
        made,
        outputs=outputs,
        losses=losses,
        optimizer=random.choice([*OPTIMIZERS]),
        accumulated=random.choice([1, 1, 2]),
        compiled_optimizer=random.random() < 0.2,
        hooked=random.random() < 0.2,
        dynamic=random.random() < 0.25,
        option=random.randrange(len(OPTIONS)),
    )
