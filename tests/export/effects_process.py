"""An operator with ordered effects, and a process that calls packages of it: `python effects_process.py FOLDER`."""

import sys
from pathlib import Path

import torch
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

heard: list[tuple[str, float]] = []


@torch.library.custom_op("bascule_packaged::hear", mutates_args=())
def hear(x: torch.Tensor, name: str) -> torch.Tensor:
    """Notes a name and the first element of `x`; `x + 1`."""
    heard.append((name, x.flatten()[0].item()))
    return x + 1


hear.register_fake(lambda x, name: torch.empty_like(x))
_register_effectful_op(torch.ops.bascule_packaged.hear.default, _EffectType.ORDERED)

if __name__ == "__main__":
    import bascule

    folder = Path(sys.argv[1])
    found = {}
    for name in torch.load(folder / "names"):
        heard.clear()
        program = bascule.aot_load(folder / name)
        found[name] = [program(x.clone()) for x in torch.load(folder / "inputs")], heard[:]
    torch.save(found, folder / "results")
