"""The beginning of a program that must need no compiler: it cannot import one."""

BLOCKED = """
import sys

import torch  # which itself looks for Triton where it is installed, from 2.14 on

class Blocked:
    NAMES = ("torch._dynamo", "torch._inductor", "torch_mlir", "triton", "sympy", "bascule.dialect", "bascule.frontend", "bascule.lowering")

    def find_spec(self, name, path=None, target=None):
        if any(name == blocked or name.startswith(blocked + ".") for blocked in self.NAMES):
            raise ImportError(f"{name} is not to be imported")

sys.meta_path.insert(0, Blocked())
"""
