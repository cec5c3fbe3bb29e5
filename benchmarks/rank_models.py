"""GPT-2 and Llama as plain modules, and the ways in which several ranks train one: each takes a model whole and leaves it distributed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn import functional as F


@dataclass(frozen=True)
class Size:
    """Of a model and of what a rank gets of it in a step."""

    layers: int
    hidden: int
    heads: int
    inner: int
    vocabulary: int
    length: int
    batch: int
    dtype: torch.dtype


class Attention(nn.Module):
    """Causal; a rank that has some of the heads has them whole."""

    def __init__(self, size: Size, bias: bool, rotary: bool):
        super().__init__()
        self.width, self.rotary = size.hidden // size.heads, rotary
        self.q, self.k, self.v, self.o = (nn.Linear(size.hidden, size.hidden, bias=bias) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (-1, self.width)).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.rotary:
            q, k = rotated(q), rotated(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


def rotated(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class GPT2Block(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size.hidden), nn.LayerNorm(size.hidden)
        self.attention = Attention(size, bias=True, rotary=False)
        self.up, self.down = nn.Linear(size.hidden, size.inner), nn.Linear(size.inner, size.hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(size.hidden, 1e-5), nn.RMSNorm(size.hidden, 1e-5)
        self.attention = Attention(size, bias=False, rotary=True)
        self.gate, self.up = (nn.Linear(size.hidden, size.inner, bias=False) for _ in range(2))
        self.down = nn.Linear(size.inner, size.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    """Returns the loss of each token's successor."""

    def __init__(self, size: Size, block: type[nn.Module], positions: bool):
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.hidden)
        self.positions = nn.Embedding(size.length, size.hidden) if positions else None
        self.blocks = nn.ModuleList(block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.hidden) if positions else nn.RMSNorm(size.hidden, 1e-5)
        self.head = nn.Linear(size.hidden, size.vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))[:, :-1].float()
        labels = ids[:, 1:].flatten()
        total = F.cross_entropy(logits.flatten(0, 1), labels, reduction="sum")
        return total / torch.ones_like(labels).sum().clamp(min=1)  # of no rows it is 0


MODELS: dict[str, Callable[[Size], nn.Module]] = {
    "gpt2": lambda size: Model(size, GPT2Block, positions=True),
    "llama": lambda size: Model(size, LlamaBlock, positions=False),
}
SIZES = {
    "gpt2": Size(12, 768, 12, 3072, 50304, 1024, 8, torch.bfloat16),
    "llama": Size(8, 2048, 16, 5632, 32000, 2048, 4, torch.bfloat16),
}
TINY = Size(2, 32, 4, 64, 64, 16, 3, torch.float32)


Compile = Callable[[Any], Any]  # a module or a function, compiled by one of the compilers; eager: as it is


def ddp(model: nn.Module, mesh: DeviceMesh, compiled: Compile) -> Callable:
    """Gradients are reduced by PyTorch's own buckets, between the graphs of a backward."""
    ids = [next(model.parameters()).device.index] if next(model.parameters()).is_cuda else None
    return compiled(nn.parallel.DistributedDataParallel(model, device_ids=ids, process_group=mesh.get_group()))


def fsdp2(model: nn.Module, mesh: DeviceMesh, compiled: Compile) -> Callable:
    """`fully_shard` of each block, whose graph is a block, and of both ends; PyTorch gathers and scatters between them.

    The ends are apart, for the embedding's gradient is the last and the head's the first. The head's weights are needed again at once, and stay.
    """
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model.tokens, mesh=mesh)
    fully_shard([model.norm, model.head], mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh)
    for block in model.blocks:
        block.forward = compiled(block.forward)
    return model


def fsdp2_whole(model: nn.Module, mesh: DeviceMesh, compiled: Compile) -> Callable:
    """The same, but one call compiles the model: Dynamo breaks its graph at FSDP's hooks."""
    return compiled(fsdp2(model, mesh, lambda block: block))


def fsdp_graph(model: nn.Module, mesh: DeviceMesh, compiled: Compile) -> Callable:
    """Parameters as sharded DTensors that are gathered where they are used, and again in the backward: one graph with all collectives."""
    shard_parameters(model, mesh)
    return compiled(model)


def tp(model: nn.Module, mesh: DeviceMesh, compiled: Compile) -> Callable:
    """Heads and inner units are split among the ranks: two all-reduces a block each way."""
    split_blocks(model, mesh)
    return compiled(model)


def fsdp2_tp(model: nn.Module, mesh: DeviceMesh, compiled: Compile) -> Callable:
    """Pairs of ranks split the blocks as `tp` does; ranks that have the same part shard it as `fsdp2` does."""
    both = init_device_mesh(mesh.device_type, (mesh.size() // 2, 2), mesh_dim_names=("data", "tensor"))
    split_blocks(model, both["tensor"])
    return fsdp2(model, both["data"], compiled)


def split_blocks(model: nn.Module, mesh: DeviceMesh) -> None:
    """Attention by heads, the units between by their number."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    for block in model.blocks:
        plan: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in "qkv"}
        plan |= {name: ColwiseParallel() for name in ("gate", "up") if hasattr(block, name)}
        plan |= {"attention.o": RowwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(block, mesh, plan)


def shard_parameters(model: nn.Module, mesh: DeviceMesh) -> None:
    """Each parameter becomes a DTensor sharded by rows, and is gathered where a module reads it."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.nn.utils import parametrize

    for module in [*model.modules()]:
        for name, parameter in [*module.named_parameters(recurse=False)]:
            sharded = distribute_tensor(parameter.detach(), mesh, [Shard(0)])
            module.register_parameter(name, nn.Parameter(sharded))
            parametrize.register_parametrization(module, name, _Gather(), unsafe=True)


class _Gather(nn.Module):
    """A sharded parameter, whole; its gradient is averaged as it is scattered."""

    def forward(self, parameter: Any) -> Tensor:
        from torch.utils.checkpoint import checkpoint

        return checkpoint(_gathered, parameter, use_reentrant=False, context_fn=_again)


def _gathered(parameter: Any) -> Tensor:
    from torch.distributed.tensor import Partial, Replicate

    return parameter.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial("avg")])


def _again() -> Any:
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    operators = torch.ops._c10d_functional
    gathering = {operators.all_gather_into_tensor.default, operators.wait_tensor.default}

    def policy(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_RECOMPUTE if operator in gathering else CheckpointPolicy.PREFER_SAVE

    return create_selective_checkpoint_contexts(policy)


WAYS = {
    "ddp": ddp,
    "fsdp2": fsdp2,
    "fsdp2_whole": fsdp2_whole,
    "tp": tp,
    "fsdp2_tp": fsdp2_tp,
    "fsdp_graph": fsdp_graph,  # last: 0.55 GB of a Llama stay allocated after it, in the peaks of what follows in the process
}
ALIKE = {"tp": 0, "fsdp2_tp": 2}  # ranks in a row that are given the same batches; 0: all
