"""`python user_kernels_process.py TARGET`: each case of `user_kernel_cases` compiled for a CPU or interpreted, against eager.

Dynamo takes calls of Triton kernels where there is a GPU, so Triton is told that there is one; who launches a kernel gets it run by Triton's
own interpreter. Prints a line a case: what was cut out of its graph, and why. On a CPU, a package has the operator, and refuses a kernel.
"""

import sys
import tempfile
from pathlib import Path

import torch
import torch.utils._triton
from triton.backends.compiler import GPUTarget
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction


class ImaginedDriver:
    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_benchmarker(self):
        return None


def interpreted(self, *args, grid, warmup, **kwargs):
    arguments = {
        name: value for name, value in kwargs.items() if name in self.arg_names
    }  # the others are the compiler's
    InterpretedFunction(self.fn).run(*args, grid=grid, warmup=warmup, **arguments)


torch.utils._triton.has_triton = lambda: True
driver.set_active(ImaginedDriver())
JITFunction.run = interpreted
JITFunction.__call__ = lambda self, *args, **kwargs: self.fn(*args, **kwargs)  # called by a kernel, as tl.sum is
Autotuner._bench = lambda self, *args, config, **kwargs: [1.0 / config.num_warps] * 3

from user_kernel_cases import CASES, check, training_step, with_gradients  # noqa: E402

import bascule  # noqa: E402


def main(target: str) -> None:
    options = {"on_error": "raise", "target": target, "cache": False}
    for name, (function, count) in CASES.items():
        inputs = [torch.randn(7, 9) for _ in range(count)]
        explanation = bascule.explain(function, *inputs, options=options)
        for dynamic in (False, True):
            torch._dynamo.reset()
            call = torch.compile(function, backend="bascule", options=options, fullgraph=True, dynamic=dynamic)
            for sizes in ((37, 50), (64, 48)) if dynamic else ((37, 50),):
                check(call, name, sizes, "cpu")
        print(f"{name}:", *(cut for graph in explanation.graphs for cut in graph.cuts))
    torch._dynamo.reset()
    x = torch.randn(20, 30)
    call = torch.compile(with_gradients, backend="bascule", options=options, fullgraph=True)
    got, want = (training_step(one, x) for one in (call, with_gradients))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    if target == "cpu":
        check_packages()


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


def check_packages() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, x = Path(folder) / "program.bascule", torch.randn(20, 30)
        operator, kernel = (
            torch.export.export(Module(CASES[name][0]), (x,), strict=True) for name in ("operator", "autotuned")
        )
        bascule.aot_compile(operator, path)
        check(bascule.aot_load(path), "operator", x.shape, "cpu")
        path.unlink()
        try:
            bascule.aot_compile(kernel, path)
        except bascule.UnsupportedError as error:
            print("package:", " ".join(str(error).splitlines()), *Path(folder).iterdir())


if __name__ == "__main__":
    torch.manual_seed(0)
    main(sys.argv[1])
