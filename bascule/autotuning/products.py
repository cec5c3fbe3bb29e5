"""`max_autotune` of products: kernels of tensor cores beside ATen's call, each with what is computed from the result, measured on the GPU.

A product is measured with its followers, the computes that wait for nothing else that depends on it: once as a call and the kernels behind it,
and with a kernel in the call's place, of at most `MOST` schedules, into which the pipeline fuses what it fuses. So the memory that an epilogue
saves, and what it costs on a tile, are in the times. A kernel is chosen where it takes less than `GAIN` of what the calls take.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from bascule.lowering.threads import processors
from bascule.lowering.triton.compile.kernel_cache import key_of
from bascule.runtime.kernels.benchmarking import HOPELESS

from ..dialect.analysis.memory.lone_products import LoneProduct, Reads
from ..dialect.analysis.memory.matmul_operands import Product
from ..dialect.fusion.joined_products import joined_products
from ..dialect.interrupts import pass_on
from ..dialect.ir.attribute_names import FUSED, TUNED_PRODUCT
from ..dialect.ir.functions import CHUNK_ROWS, functions, graph_functions, is_extern
from ..dialect.ir.shapes import constant
from ..dialect.ir.types import byte_width
from ..dialect.mlir import ir
from ..dialect.passes import Pipeline
from ..dialect.passes.graph_walk import GraphWalk
from ..dialect.passes.kernel.schedule_kernels import ScheduleKernels
from ..dialect.passes.pipeline import Observer
from ..dialect.passes.products.expand_products import FEW, JOINED, ExpandProducts, unwidened
from ..dialect.remarks.attribute import add_remark, place
from ..dialect.remarks.record import MISSED, PASSED, Remark
from ..dialect.scheduling.gpu.contractions import LEAST
from ..dialect.scheduling.gpu.machine import CudaMachine
from ..dialect.scheduling.gpu.tuned_products import ProductSchedule
from ..dialect.scheduling.tuning.product_candidates import MOST, ProductShape, hopeless
from ..pipelines import pipeline_for
from ..reporting.compile_record import Record, log
from ..targets.base import Target
from . import programs
from .product_programs import CALLS, NotMeasured, ProductPrograms, shape_of
from .session import DETERMINISTIC, PRODUCTS, Session

GAIN = 0.98  # of the time of the calls: what a kernel has to beat, for measurements vary
TOLD = 3  # kernels, the fastest ones, whose times a remark has
FORMAT = 2  # of what is kept
CHUNKED = "not measured: the graph is made by chunks of rows, to which products are cut"

# Begins to compile programs, by name, for a GPU; what is returned gives their times, or why they have none: `programs.begin`.
Measure = Callable[[Mapping[str, ir.Module], int, bool], Callable[[], programs.Times]]


def product_tuner(target: Target, record: Record, measure: Measure = programs.begin) -> list[Observer]:
    """The observers of a pipeline that choose products before `expand-products` runs: none without a GPU, or without the option."""
    device = target.index
    if not record.options.max_autotune or target.name != "cuda" or device is None:
        return []
    if torch.are_deterministic_algorithms_enabled():
        record.untuned = f"of products: {DETERMINISTIC}"
        return []

    def observe(when: str, stage: object, module: ir.Module) -> None:
        if when == "before" and isinstance(stage, ExpandProducts) and not stage.contractions:
            try:
                with record.stage(PRODUCTS), ir.Location.unknown(module.context):
                    tune_products(module, stage, target, Session(device, record), measure)
            except Exception as error:  # products that are not marked by now stay calls
                pass_on(error)
                record.untuned = f"of products: {programs.reason_of(error)}"
                log.info("%s: max_autotune %s", record.name, record.untuned, exc_info=error)

    return [observe]


@dataclass(frozen=True)
class _Found:
    """The outcome of measuring: the schedule of the fastest kernel, None where the call stays; milliseconds that it saves; times in words."""

    schedule: ProductSchedule | None
    saved: float
    told: str


@dataclass
class _Case:
    """Products that are equal, with what follows. `found`: times, or why there are none."""

    key: str
    products: list[tuple[LoneProduct, Product]]
    found: _Found | str = ""

    @property
    def shape(self) -> ProductShape:
        return shape_of(self.products[0][1])

    @property
    def work(self) -> int:
        shape = self.shape
        return shape.batch * shape.rows * shape.summed * shape.columns


def tune_products(
    module: ir.Module, expand: ExpandProducts, target: Target, session: Session, measure: Measure = programs.begin
) -> None:
    """Marks the calls of `module` (tensor stage, in its context) that are to be kernels with their schedules, and remarks every choice. `expand`
    runs next."""
    options = replace(session.record.options, pipeline=None, hooks=None)
    stages = pipeline_for(options, target.machine).stages
    first = next(number for number, stage in enumerate(stages) if isinstance(stage, ExpandProducts))
    rest = Pipeline((replace(expand, contractions=False), *stages[first + 1 :]))
    (scheduling,) = (stage for stage in stages if isinstance(stage, ScheduleKernels))
    machine = CudaMachine(scheduling.sm_count, scheduling.capability, scheduling.registers, scheduling.l2_bytes)
    tuning = _Tuning(session, rest, machine, measure)
    cases = tuning.cases(module, expand)
    tuning.find(cases)
    _choose(cases)


@dataclass
class _Tuning:
    """`pipeline`: the passes from `expand-products` on."""

    session: Session
    pipeline: Pipeline
    machine: CudaMachine
    measure: Measure

    def cases(self, module: ir.Module, expand: ExpandProducts) -> list[_Case]:
        """The products that may be kernels, equal ones together, the largest first."""
        conditions = {"format": FORMAT, "passes": str(self.pipeline), **self.session.conditions}
        found: dict[str, _Case] = {}
        for lone, product in _products(module, expand):
            key = key_of(lone.module().operation.get_asm(), **conditions)
            found.setdefault(key, _Case(key, [])).products.append((lone, product))
        return sorted(found.values(), key=lambda case: -case.work)

    def find(self, cases: Sequence[_Case]) -> None:
        """Has each case know its times: from the store, or measured, as many at once as keep the processors busy."""
        known = self.session.known({case.key for case in cases})
        missing = []
        for case in cases:
            taken = _read(known.get(case.key))
            if taken is not None:
                case.found = taken
            else:
                missing.append(case)
        together = max(1, 2 * processors() // MOST)
        for number in range(0, len(missing), together):
            if self.session.is_over:
                for case in missing[number:]:
                    case.found = self.session.spent
                break
            self._measure(missing[number : number + together])

    def _measure(self, cases: Sequence[_Case]) -> None:
        begun = []
        for case in cases:
            try:
                lone, product = case.products[0]
                saved = 2 * product_bytes(product) if lone.followers else 0
                refusal = hopeless(case.shape, saved, self.machine)
                if refusal is not None:
                    raise NotMeasured(refusal)
                made = ProductPrograms.of(lone, product, self.pipeline, self.machine)
                times = self.measure(made.modules, self.session.device, self.session.record.options.cache)
                begun.append((case, made, times))
            except Exception as error:  # of what is tried: the model chooses
                pass_on(error)
                case.found = _told_of(error)
        for case, made, times in begun:
            try:
                case.found = _judged(times(), made, bool(case.products[0][0].followers))
                self.session.keep(case.key, _written(case.found))
            except Exception as error:  # of the device, that is out of memory, say
                pass_on(error)
                case.found = _told_of(error)


def _products(module: ir.Module, expand: ExpandProducts) -> Iterator[tuple[LoneProduct, Product]]:
    """The calls that are products and that may be kernels, but stay calls if nothing is measured."""
    externs = {f.attributes["sym_name"].value: f for f in functions(module) if is_extern(f)}
    for graph in graph_functions(module):
        ops = GraphWalk(graph).ops
        reads = Reads(ops)
        joins = expand.capability >= JOINED and expand.numerics != "eager"
        joined = joined_products(module, ops, expand.sm_count) if joins else []
        for number, op in enumerate(ops):
            callee = externs.get(op.attributes["callee"].value) if op.name == "func.call" else None
            product = None if callee is None else Product.of(op, callee)
            if callee is None or product is None or op in joined or not _may_be_a_kernel(unwidened(product)):
                continue
            wide, product = product, unwidened(product)
            widenings = [] if product is wide else [x.owner.operation for x in (wide.x, wide.y)]
            lone = LoneProduct.of(number, callee, reads, list(dict.fromkeys(widenings)))
            if CHUNK_ROWS in graph.attributes:
                _tell(lone, product, MISSED, "stays a call", CHUNKED)
            else:
                yield lone, product


def _may_be_a_kernel(product: Product) -> bool:
    element, result = product.x.type.element_type, product.result.type.element_type
    sizes = [*map(constant, product.sizes), *product.result.type.shape]
    same = element == product.y.type.element_type and result in (element, ir.F32Type.get())
    if (
        FUSED in product.op.attributes
        or not same
        or not product.has_sides
        or any(size is None or size <= 0 for size in sizes)
    ):
        return False
    rows, summed, columns = (constant(size) or 0 for size in product.sizes)
    return isinstance(element, ir.BF16Type | ir.F16Type | ir.F32Type) and min(rows, columns) > FEW and summed >= LEAST


def product_bytes(product: Product) -> int:
    """Of the result."""
    shape = shape_of(product)
    return shape.batch * shape.rows * shape.columns * byte_width(product.result.type.element_type)


def _judged(times: programs.Times, made: ProductPrograms, followed: bool) -> _Found:
    """Takes the fastest kernel, if it is fast enough. Raises `NotMeasured` where the calls have no time for a reason."""
    calls = times.get(CALLS)
    if isinstance(calls, str):
        raise NotMeasured(calls)
    measured = {name: time for name in made.schedules if isinstance(time := times.get(name), float)}
    failed = {name: time for name in made.schedules if isinstance(time := times.get(name), str)}
    fastest = sorted(measured, key=measured.__getitem__)
    called = "the call, with what follows," if followed else "the call"
    told = [f"{called} takes {'much longer' if calls is None else _us(calls)}"]
    if fastest:
        kernels = ", ".join(f"{_us(measured[name])} ({made.schedules[name]})" for name in fastest[:TOLD])
        told.append(f"the fastest of {len(made.schedules)} kernels {kernels}")
    else:
        told.append(f"none of {len(made.schedules)} kernels is near that")
    if failed:
        reasons = dict.fromkeys(f"{made.schedules[name]}: {reason}" for name, reason in failed.items())
        told.append(f"not chosen: {len(failed)} that failed, {next(iter(reasons))}")
    best = fastest[0] if fastest else None
    if best is None or (calls is not None and measured[best] >= GAIN * calls):
        return _Found(None, 0.0, "; ".join(told))
    saved = (HOPELESS * measured[best] if calls is None else calls) - measured[best]
    return _Found(made.schedules[best], saved, "; ".join(told))


def _choose(cases: Sequence[_Case]) -> None:
    """Marks calls, those that save most first: what follows two products is computed with one of them, as it was measured."""
    taken = set[tuple[str, int]]()
    order = sorted(cases, key=lambda case: -case.found.saved if isinstance(case.found, _Found) else 0.0)
    for case in order:
        for lone, product in case.products:
            found = case.found
            followers = {(lone.graph, number) for number in lone.followers}
            if isinstance(found, str):
                _tell(lone, product, MISSED, "is chosen by the model", found)
            elif found.schedule is None:
                _tell(lone, product, MISSED, "stays a call, as measured", found.told)
                lone.call.attributes[TUNED_PRODUCT] = ir.BoolAttr.get(False)
            elif not taken.isdisjoint(followers):
                told = "what follows is computed with another product, for which this one was a call"
                _tell(lone, product, MISSED, "stays a call", f"{told}; alone {found.told}")
                lone.call.attributes[TUNED_PRODUCT] = ir.BoolAttr.get(False)
            else:
                taken |= followers
                _tell(lone, product, PASSED, "is a kernel, as measured", found.told)
                lone.call.attributes[TUNED_PRODUCT] = found.schedule.attribute()


def _tell(lone: LoneProduct, product: Product, kind: str, decision: str, reason: str) -> None:
    shape = case_text(shape_of(product))
    log.info("%s %s %s: %s", place(lone.call), shape, decision, reason)
    add_remark(lone.call, Remark(ExpandProducts.name, kind, decision, f"{shape}: {reason}", place(lone.call)))


def case_text(shape: ProductShape) -> str:
    """The sizes, as the remarks of `expand-products` have them."""
    batch = f"{shape.batch} of " if shape.batch > 1 else ""
    return f"{batch}{shape.rows}x{shape.summed}x{shape.columns}"


def _told_of(error: Exception) -> str:
    return f"not measured: {error if isinstance(error, NotMeasured) else programs.reason_of(error)}"


def _us(milliseconds: float) -> str:
    return f"{1e3 * milliseconds:.1f} us"


def _written(found: _Found) -> bytes:
    schedule = None if found.schedule is None else found.schedule.to_json()
    return json.dumps({"schedule": schedule, "saved": found.saved, "told": found.told}).encode()


def _read(content: bytes | None) -> _Found | None:
    """The outcome that was kept; None for nothing of ours."""
    try:
        told = None if content is None else json.loads(content)
        if told is None:
            return None
        schedule = None if told["schedule"] is None else ProductSchedule.from_json(told["schedule"])
        return _Found(schedule, float(told["saved"]), str(told["told"]))
    except (ValueError, KeyError, TypeError):
        return None
