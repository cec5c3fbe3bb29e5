"""An FX graph run node by node, each result checked against what the node's metadata says of it."""

from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from ..compat.tensors.pytree import tree_leaves
from ..errors import CompilerError


class MetadataMismatch(CompilerError):
    """A node's result is not what its metadata says."""


class CheckedInterpreter(Interpreter):
    """Runs `gm` as `torch.fx.Interpreter` does. Raises `MetadataMismatch` for a result of another dtype, size or stride than
    `meta["val"]` has; strides of dimensions of 1 say nothing, nor do those of empty tensors."""

    def __init__(self, gm: GraphModule):
        super().__init__(gm)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        fakes = [node.meta.get("val") for node in self.module.graph.nodes if node.op == "placeholder"]
        numbers = [n for x in fakes for n in ((*x.shape, *x.stride()) if isinstance(x, torch.Tensor) else [x])]
        symbolic = next((n for n in numbers if isinstance(n, torch.SymInt)), None)
        self.sizes = {} if symbolic is None else symbolic.node.shape_env.bind_symbols(fakes, args)
        return super().run(*args, **kwargs)

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.op != "output" and "val" in n.meta:
            found, told = tree_leaves(result), tree_leaves(n.meta["val"])
            for number, (real, fake) in enumerate(zip(found, told)):
                if isinstance(real, torch.Tensor) and isinstance(fake, torch.Tensor):
                    self._check(n, number, real, fake)
        return result

    def _check(self, node: Node, number: int, real: torch.Tensor, fake: torch.Tensor) -> None:
        sizes, strides = self._numbers(fake.shape), self._numbers(fake.stride())
        pairs: dict[str, tuple[Any, Any]] = {"dtype": (real.dtype, fake.dtype), "sizes": (list(real.shape), sizes)}
        if real.numel() and list(real.shape) == sizes:
            long = [number for number, size in enumerate(sizes) if size > 1]
            pairs["strides"] = [real.stride(i) for i in long], [strides[i] for i in long]
        for what, (is_, told) in pairs.items():
            if is_ != told:
                raise MetadataMismatch(
                    f"result {number} of '{node.name}' ({node.target}) has {what} {is_}, its metadata says {told}{_line(node)}"
                )

    def _numbers(self, sizes: Any) -> list[int]:
        return [int(size.node.expr.xreplace(self.sizes)) if isinstance(size, torch.SymInt) else size for size in sizes]


def _line(node: Node) -> str:
    """The user's line, the last of the node's stack."""
    lines = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip().startswith("File ")]
    return f"\n  {lines[-1]}" if lines else ""
