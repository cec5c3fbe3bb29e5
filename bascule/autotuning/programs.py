"""How long programs that compute the same take on a GPU: each is compiled, run once and compared with the first, then timed in turns."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from bascule.compat.operators.dispatch import without_dispatch_modes
from bascule.lowering.program import Plans, to_python
from bascule.lowering.triton.compile.parallel import start_compiling
from bascule.lowering.triton.compile.programs import lower_kernels
from bascule.runtime import load
from bascule.runtime.memory.extents import extent

from ..dialect.interpreter.launch import parameters_of
from ..dialect.interrupts import pass_on
from ..dialect.ir.functions import graph_functions
from ..dialect.ir.shapes import constant
from ..dialect.mlir import ir
from ..targets.kernel_images import image_of, kernel_cache

# Name of a program -> milliseconds, or why it has none.
Times = dict[str, float | str]
SPREAD = 2.0**-3  # of random numbers: sums of products stay near 1, and exp of them finite
SAMPLED = 1 << 22  # elements of a result, about, that are compared
APART = 2.0**-5  # of the mean element, the mean difference of two programs' results from which on one of them is wrong


def begin(programs: Mapping[str, ir.Module], device: int, cached: bool) -> Callable[[], Times]:
    """Begins to compile `programs`, modules of the program stage with one graph; what is returned waits, and measures.

    `cached`: whether the disk cache of kernels is used. What is refused, raises, or computes something else than the first has a reason for a
    time; where the first is such a one, so are all. Much slower ones have none of both.
    """
    compiling = {name: _Compiling(module, device, cached) for name, module in programs.items()}
    return lambda: _times(compiling, device)


class _Compiling:
    """One program at whose kernels other threads are at work."""

    def __init__(self, module: ir.Module, device: int, cached: bool):
        from bascule.runtime.kernels.cuda_driver import capability

        self.module, self.device = module, device
        self.refused: dict[str, Exception] = {}
        self.lowered = lower_kernels(module, self.refused.__setitem__)
        kernels = list(self.lowered.kernels.values())
        self.compiling = start_compiling(kernels, capability(device), kernel_cache(cached))

    def call(self) -> Callable[..., Any]:
        """The program as a function of its tensors in a list. Raises what refuses one of its kernels."""
        from bascule.runtime.kernels.cuda_kernels import PlannedKernels

        codes = self.compiling.result(self.refused.__setitem__)
        images = {name: image_of(code) for name, code in codes.items()}
        kernels = PlannedKernels(images, self.device, refuse=self.refused.__setitem__)
        for error in self.refused.values():
            raise error
        plans = Plans(f"cuda:{self.device}", self.lowered.launches, "autotune")
        return load(to_python(self.module, plans), kernels)


def _times(compiling: Mapping[str, _Compiling], device: int) -> Times:
    from bascule.runtime.kernels import benchmarking

    told: Times = {}
    calls: dict[str, Callable[[], Any]] = {}
    wanted: list[torch.Tensor] | None = None
    given: list[torch.Tensor] = []
    # A trace is under way: what is called here is none of its operators, and is called as the program will be.
    plain = torch.autocast("cuda", enabled=False)
    with without_dispatch_modes(), torch.no_grad(), plain, torch.cuda.device(device):
        for name, each in compiling.items():
            try:
                call = each.call()
                given = given or inputs_of(each.module, torch.device("cuda", device))
                found = _results(call, given)
                if wanted is None:
                    wanted = found
                if all(map(_alike, found, wanted)):
                    calls[name] = partial(_called, call, given)
                else:
                    told[name] = "it computes something else than the calls"
            except Exception as error:  # of one program: it is not chosen
                pass_on(error)
                told[name] = reason_of(error)
                if wanted is None:
                    return dict.fromkeys(compiling, told[name])
        del wanted, found
        return told | benchmarking.times_in_turns(calls, device)


def inputs_of(module: ir.Module, device: torch.device) -> list[torch.Tensor]:
    """Tensors for the graph of a module of the program stage: random numbers; integers are 0, which as a place is in range."""
    with module.context:
        (graph,) = graph_functions(module)
        parameters = [
            (p.dtype, [*map(constant, p.sizes)], [*map(constant, p.strides)])
            for p in parameters_of(graph, ir.SymbolTable(module.operation))
        ]
    generator = torch.Generator(device).manual_seed(0)
    made = []
    for dtype, sizes, strides in parameters:
        flat = torch.zeros(extent(sizes, strides), dtype=dtype, device=device)
        if dtype.is_floating_point and dtype.itemsize > 1:
            flat.normal_(std=SPREAD, generator=generator)
        made.append(flat.as_strided(sizes, strides))
    return made


def _called(call: Callable[..., Any], given: list[torch.Tensor]) -> Any:
    """A call takes what is in its list."""
    return call(list(given))


def _results(call: Callable[..., Any], given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Rows of the floats that a program computes, in f32."""
    found = [x for x in _called(call, given) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    torch.cuda.synchronize()
    return [x[:: -(-x.numel() // SAMPLED)].float() if x.numel() > SAMPLED else x.float() for x in found]


def _alike(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether two results differ by no more than roundings, on the mean of what is finite: single elements may turn at a rounding."""
    both = found.isfinite() & wanted.isfinite()
    if both.sum() < (1 - APART) * wanted.isfinite().sum():
        return False
    found, wanted = found[both], wanted[both]
    return bool((found - wanted).abs().sum() <= APART * wanted.abs().sum() + 1e-6 * wanted.numel())


def reason_of(error: Exception) -> str:
    """The first line of what an error says."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
