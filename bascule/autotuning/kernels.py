"""`max_autotune`: for each kernel for a GPU a few neighbours of its schedule are compiled and measured there, and the fastest is taken.

What was found is kept on disk, by the kernel's text, the device and the versions, so that a kernel is measured once.
"""

import json
from dataclasses import dataclass
from typing import Any

import torch

from bascule.lowering.triton.compile.kernel_cache import key_of
from bascule.lowering.triton.compile.parallel import compile_kernels
from bascule.lowering.triton.compile.programs import lower_kernels
from bascule.lowering.triton.kernels.triton_kernel import LoweredKernels
from bascule.runtime.memory.extents import extent

from ..dialect.interpreter.launch import parameters_of
from ..dialect.interrupts import pass_on
from ..dialect.ir.builders import symbols_of
from ..dialect.ir.functions import functions, kernel_op
from ..dialect.ir.regions import ops_in
from ..dialect.ir.shapes import constant
from ..dialect.mlir import ir
from ..dialect.scheduling.gpu.tuned_products import has_tuned_product
from ..dialect.scheduling.tuning.neighbours import Neighbour, is_in_segments, neighbours
from ..reporting.compile_record import Record, log
from ..reporting.module_summary import TUNED
from ..targets.kernel_images import image_of, kernel_cache
from .session import DETERMINISTIC, KERNELS, Session

TOGETHER = 16  # kernels whose schedules are compiled at once
ORDERED = ("bascule.reduce", "bascule.scan")  # a schedule says in which order these add
GAIN = 0.98  # of the time of the schedule as decided: what a neighbour has to beat, for measurements vary


def tune(module: ir.Module, target: Any, record: Record) -> None:
    """Replaces schedules of kernels of `module` (program stage) by faster ones, and writes on each kernel function what was found.

    Where there is nothing to measure on, or measuring fails, `record.untuned` says so, and schedules stay as they are.
    """
    if target.name != "cuda":
        reason = "are run by an interpreter" if target.name == "interpret" else "run on a CPU"
        record.untuned = f"its kernels {reason}; schedules are measured on a GPU"
    else:
        try:
            with record.stage(KERNELS):
                _Tuning(module, Session(target.index, record)).run()
        except RuntimeError as error:  # the driver's, or of a device that is out of memory
            pass_on(error)
            record.untuned = f"measuring failed: {error}"
    if record.untuned is not None:
        log.info("%s: max_autotune does nothing: %s", record.name, record.untuned)


@dataclass
class _Candidate:
    """A kernel function and the schedules near its own. `key`: of what is known about it."""

    function: ir.Operation
    key: str
    near: list[Neighbour]

    @property
    def name(self) -> str:
        return self.function.attributes["sym_name"].value

    def variant(self, number: int) -> str:
        return f"{self.name}__{number}"

    def choose(self, schedule: ir.Attribute | None, told: str) -> None:
        """Takes `schedule`, or stays as it is."""
        if schedule is not None:
            kernel_op(self.function).attributes["schedule"] = schedule
        self.function.attributes[TUNED] = ir.StringAttr.get(told)


class _Tuning:
    """One module."""

    def __init__(self, module: ir.Module, session: Session):
        self.module, self.session, self.record = module, session, session.record

    def run(self) -> None:
        with self.module.context, ir.Location.unknown():
            # What is refused here is refused again, and told, later.
            own = lower_kernels(self.module, lambda name, error: None)
            candidates = self._candidates(own)
            known = self.session.known({candidate.key for candidate in candidates})
            missing = [candidate for candidate in candidates if not _taken(candidate, known.get(candidate.key))]
            for first in range(0, len(missing), TOGETHER):
                if self.session.is_over:
                    for candidate in missing[first:]:
                        candidate.choose(None, self.session.spent)
                    break
                self._measure(missing[first : first + TOGETHER])

    def _candidates(self, own: LoweredKernels) -> list[_Candidate]:
        found = []
        for function in functions(self.module):
            kernel = kernel_op(function)
            if kernel is None or function.attributes["sym_name"].value not in own.kernels:
                continue
            refusal = _refusal(function, kernel)
            if refusal is not None:
                function.attributes[TUNED] = ir.StringAttr.get(refusal)
                continue
            text = own.kernels[function.attributes["sym_name"].value].ttir
            schedule = str(kernel.attributes["schedule"])
            key = key_of(text, schedule=schedule, **self.session.conditions)
            found.append(_Candidate(function, key, neighbours(kernel)))
        return found

    def _measure(self, candidates: list[_Candidate]) -> None:
        from bascule.runtime.kernels import benchmarking
        from bascule.runtime.kernels.cuda_driver import capability, load_kernels

        scratch = ir.Module.create()
        for candidate in candidates:
            own = kernel_op(candidate.function).attributes["schedule"]
            for number, schedule in enumerate([own, *(near.schedule for near in candidate.near)]):
                copy = candidate.function.clone(ir.InsertionPoint(scratch.body))
                copy.attributes["sym_name"] = ir.StringAttr.get(candidate.variant(number))
                kernel_op(copy).attributes["schedule"] = schedule
        # A schedule that its kernel, Triton or the device does not take is none to choose.
        failed: dict[str, Exception] = {}
        refuse = failed.__setitem__
        lowered = lower_kernels(scratch, refuse)
        cache = kernel_cache(self.record.options.cache)
        device = self.session.device
        codes = compile_kernels(list(lowered.kernels.values()), capability(device), cache, refuse)
        loaded = load_kernels({name: image_of(code) for name, code in codes.items()}, device, refuse)
        table = ir.SymbolTable(self.module.operation)
        for candidate in candidates:
            names = [candidate.variant(number) for number in range(len(candidate.near) + 1)]
            ready = {
                name: (loaded[name], constant(lowered.launches[name].grid.results[0]))
                for name in names
                if name in loaded
            }
            if names[0] not in ready:  # refused as it is: told when it is compiled
                continue
            parameters = [
                (p.dtype, _elements(p.sizes, p.strides), p.sizes) for p in parameters_of(candidate.function, table)
            ]
            below = max([1, *(constant(sizes[0]) for _, _, sizes in parameters if sizes)])
            arguments = [benchmarking.Scratch(dtype, elements, below) for dtype, elements, _ in parameters]
            self._decide(candidate, names, benchmarking.times_of(ready, arguments, device))

    def _decide(self, candidate: _Candidate, names: list[str], times: dict[str, float]) -> None:
        """Takes the fastest. `times`: of those among `names`, the first of which is the schedule as it is, that were not much slower."""
        fastest = min(times, key=times.__getitem__)
        own = times.get(names[0])
        change, schedule = None, None
        if fastest != names[0] and (own is None or times[fastest] < GAIN * own):
            near = candidate.near[names.index(fastest) - 1]
            change, schedule = near.change, near.schedule
        before = "much more" if own is None else f"{1e3 * own:.1f} us"
        told = f"{1e3 * times[fastest]:.1f} us instead of {before}: {change}" if change else f"{before}, the fastest"
        told = f"{told} (of {len(names)} schedules)"
        candidate.choose(schedule, told)
        log.info("%s: %s takes %s", self.record.name, candidate.name, told)
        self.session.keep(candidate.key, json.dumps({"change": change, "told": told}).encode())


def _refusal(function: ir.Operation, kernel: ir.Operation) -> str | None:
    """Why a kernel is not measured; None for one that is."""
    if symbols_of(function):
        return "not measured: its sizes are dynamic"
    if is_in_segments(kernel):
        return "not measured: numbers that it is given say what there is to do"
    if torch.are_deterministic_algorithms_enabled() and any(op.name in ORDERED for op in ops_in(kernel)):
        return f"not measured: {DETERMINISTIC}"
    if has_tuned_product(kernel.regions[0].blocks[0]):
        return "as its product was beside ATen's call, see the remark"
    return None


def _taken(candidate: _Candidate, content: bytes | None) -> bool:
    """Whether what was found another time has been taken from its entry."""
    try:
        told = None if content is None else json.loads(content)
        if told is None:
            return False
        schedules = {near.change: near.schedule for near in candidate.near}
        candidate.choose(schedules[told["change"]] if told["change"] else None, told["told"])
    except (ValueError, KeyError, TypeError):  # nothing of ours: measured again
        return False
    return True


def _elements(sizes: list[ir.AffineExpr], strides: list[ir.AffineExpr]) -> int:
    """From the first element to the last of a buffer of static size."""
    return extent([*map(constant, sizes)], [*map(constant, strides)])
