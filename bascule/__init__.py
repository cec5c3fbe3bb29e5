"""Bascule: a `torch.compile` backend whose middle is MLIR.

`torch.compile(f, backend="bascule", mode=..., options=...)` needs no import. What is here is for asking about it:

    bascule.explain(f, *args)     what became of a function: kernels, ATen calls and why, memory, times
    bascule.report(f, *args)      the same and more as one page of HTML
    bascule.memory(model, *inputs)    what holds memory at the peak of a training step, and what less of it costs
    bascule.predict_collectives(step, model)    how much of a step's communication nothing else runs beside, on several ranks
    bascule.bisect(model, inputs) which graph, pass and fusion made a model's numbers wrong
    bascule.compile_fx(gm, inputs), bascule.compile_fx_inner(gm, inputs)    graphs without Dynamo, as Inductor's functions of these names
    bascule.aot_compile(exported, path), bascule.aot_load(path)     a program as one file, and back, without a compiler
    bascule.register_decomposition(operator, function)    what to compile in the place of a custom operator
    bascule.list_options()        the options, their meaning and defaults
    bascule.counters()            how often what happened in this process
    bascule.wait_for_kernels()    until what is compiled beside the program is compiled

Names are loaded when first used: the tools (`bascule-opt`) import this package too, and need no PyTorch.
"""

import sys
import time
import warnings
from importlib import import_module
from typing import Any

BEGAN = time.time()  # seconds since the epoch; no source of ours was read before, but this file

_PUBLIC = {
    "aot_compile": "export.aot_compile",
    "aot_load": "runtime.packages.exported_program",
    "bisect": "bisection.model",
    "Bisection": "bisection.model",
    "BasculeError": "errors",
    "CompilerError": "errors",
    "Explanation": "entry.explain",
    "Options": "options",
    "UnsupportedError": "errors",
    "UserError": "errors",
    "compile_fx": "entry.compile_fx",
    "compile_fx_inner": "entry.compile_fx",
    "compile_graph": "compiler.compile_graph",
    "counters": "reporting.counters",
    "explain": "entry.explain",
    "MemoryReport": "budget.report",
    "list_modes": "options",
    "list_options": "options",
    "memory": "budget.report",
    "memory_efficient_fusion": "entry.compile_fx",
    "PredictedCollectives": "ranks.prediction",
    "predict_collectives": "ranks.prediction",
    "register_decomposition": "frontend.aot.declared_decompositions",
    "report": "report_page.collect",
    "wait_for_kernels": "tiers.background",
}

_COMPILES = {
    "aot_compile",
    "bisect",
    "compile_fx",
    "compile_fx_inner",
    "compile_graph",
    "explain",
    "memory",
    "memory_efficient_fusion",
    "report",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version(__name__)
    if name in _PUBLIC:
        if name in _COMPILES:
            import_module(f"{__name__}.compat.versions").check("torch")
        return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])


def register_artifacts() -> None:
    """Tells `torch.compiler.load_cache_artifacts` of our entries. `import torch` calls it (the entry point in `torch.backends`)."""
    if "torch.compiler" not in sys.modules:
        return
    try:
        import_module(f"{__name__}.cache.artifacts")
    except Exception as error:  # another PyTorch has what that needs elsewhere: its own import must not fail for that
        import_module(f"{__name__}.dialect.interrupts").pass_on(error)
        told = f"{type(error).__name__}: {error}"
        warnings.warn(f"Bascule's entries are none of torch.compiler.save_cache_artifacts here: {told}", stacklevel=2)


register_artifacts()  # PyTorch may have been imported before, without entry points
