"""Kernels that other threads compile: more may come meanwhile, equal ones are compiled once, of those that wait the longest comes first."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from threading import Lock

from bascule.dialect.errors import CompilerError
from bascule.dialect.interrupts import pass_on

from ...environment import changing_environment
from ...refusals import Refuse, reraise
from ...threads import processors, start
from ..kernels.triton_kernel import TritonKernel
from .compilation import machine_code, options_of, triton_version
from .kernel_cache import KernelCache, MachineCode, key_of


class Compiling:
    """Kernels at which other threads are at work. They end when none waits, so what forks waits for no kernel that is yet to be added."""

    def __init__(self, capability: int, cache: KernelCache | None = None):
        """`capability`: 90 is sm_90; `cache`: has kernels that were compiled before, and keeps those that are, by default none."""
        self.capability, self.cache = capability, cache or KernelCache(None)
        self.conditions = {
            "triton": triton_version(),
            "capability": capability,
            "environment": changing_environment(),
        }
        self.keys: dict[str, str] = {}  # of the cache, by name
        self._kernels: list[TritonKernel] = []
        self._codes: dict[str, Future[MachineCode]] = {}  # by key
        self._changing = Lock()
        self._new: dict[str, TritonKernel] = {}  # which the cache was not asked for, by key
        self._missing: list[tuple[int, str, TritonKernel]] = []  # in the cache: a heap, the longest first
        self._threads = 0

    def add(self, kernels: Collection[TritonKernel]) -> None:
        """Begins to compile `kernels`; the cache is asked for all of them at once."""
        keys = {kernel.name: self._key(kernel) for kernel in kernels}
        with self._changing:
            for kernel in kernels:
                key = self.keys[kernel.name] = keys[kernel.name]
                self._kernels.append(kernel)
                if key not in self._codes:
                    self._codes[key], self._new[key] = Future(), kernel
            if self._new:
                self._employ(1)
            alone = bool(self._new) and not self._threads
            self._threads += alone
        if alone:  # there can be no other thread
            self._work()

    def done(self) -> tuple[int, int]:
        """How many kernels are compiled, equal ones as one, and of how many so far."""
        codes = list(self._codes.values())
        return sum(code.done() for code in codes), len(codes)

    def result(self, refuse: Refuse = reraise) -> dict[str, MachineCode]:
        """Waits; returns machine code by name. `refuse`, what is left out and what is raised: see `compile_kernels`."""
        codes = {}
        for kernel in self._kernels:
            try:
                code = self._codes[self.keys[kernel.name]].result()
            except CompilerError as error:
                refuse(kernel.name, error)
            else:
                codes[kernel.name] = replace(code, location=kernel.location)
        return codes

    def abandon(self) -> None:
        """Nobody waits for the result: what is not begun is left."""
        with self._changing:
            self._new, self._missing = {}, []

    def _key(self, kernel: TritonKernel) -> str:
        more = {"resident": kernel.resident, "cluster": kernel.cluster, "descriptors": list(kernel.descriptors)}
        return key_of(kernel.ttir, **self.conditions, **options_of(kernel), **more)

    def _employ(self, threads: int) -> None:
        """So many more, up to one a processor, or as many as there can be. To be called with the lock."""
        try:
            for _ in range(min(threads, processors() - self._threads)):
                start(self._work)
                self._threads += 1
        except OSError as error:
            pass_on(error)

    def _work(self) -> None:
        while True:
            with self._changing:
                new, self._new = self._new, {}
                if not new and not self._missing:
                    self._threads -= 1
                    return
                longest = None if new else heappop(self._missing)
            if longest is None:
                self._find(new)
            else:
                _, key, kernel = longest
                self._settle([key], partial(self._made, key, kernel))

    def _find(self, kernels: dict[str, TritonKernel]) -> None:
        """Takes what the cache has; the rest is missing."""
        found = self._settle(kernels, partial(self.cache.find, set(kernels)))
        missing = [(-len(kernel.ttir), key, kernel) for key, kernel in kernels.items() if key not in found]
        with self._changing:
            for each in missing:
                heappush(self._missing, each)
            self._employ(len(missing))

    def _made(self, key: str, kernel: TritonKernel) -> dict[str, MachineCode]:
        code = machine_code(kernel, self.capability)
        self.cache.put(key, code)
        return {key: code}

    def _settle(self, keys: Collection[str], work: Callable[[], dict[str, MachineCode]]) -> Collection[str]:
        """Those of `keys` that have a result now: code, or what `work` raised, which `result` raises or tells."""
        try:
            found = work()
        except BaseException as error:
            for key in keys:
                self._codes[key].set_exception(error)
            return keys
        for key, code in found.items():
            self._codes[key].set_result(code)
        return found


def start_compiling(kernels: Sequence[TritonKernel], capability: int, cache: KernelCache | None = None) -> Compiling:
    """`compile_kernels`, which does not wait for Triton."""
    compiling = Compiling(capability, cache)
    compiling.add(kernels)
    return compiling


def compile_kernels(
    kernels: Sequence[TritonKernel], capability: int, cache: KernelCache | None = None, refuse: Refuse = reraise
) -> dict[str, MachineCode]:
    """Machine code of each kernel, by name, for compute capability `capability` (90 is sm_90).

    What `cache` (default: none) has is taken from there; the rest is compiled in parallel, and equal kernels once. `refuse` is told
    of a kernel that does not compile, and the `CompilerError`; where it returns, the kernel is left out. Raises `UserError` for an
    architecture that Triton does not know.
    """
    return start_compiling(kernels, capability, cache).result(refuse)
