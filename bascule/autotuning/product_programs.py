"""The programs that are measured for a product with what follows: the calls as they are, and a kernel of each schedule in the call's place."""

from dataclasses import dataclass

from bascule.frontend.fx.matmul_precision import allows_tf32

from ..dialect.analysis.memory.lone_products import LoneProduct
from ..dialect.analysis.memory.matmul_operands import Product
from ..dialect.ir.attribute_names import TUNED_PRODUCT
from ..dialect.ir.attributes import ScheduleAttr
from ..dialect.ir.functions import functions, graph_functions, kernel_op
from ..dialect.ir.shapes import constant
from ..dialect.ir.types import byte_width
from ..dialect.mlir import ir
from ..dialect.passes import Pipeline
from ..dialect.scheduling.gpu.machine import CudaMachine
from ..dialect.scheduling.gpu.schedule_form import from_attribute, to_attribute
from ..dialect.scheduling.gpu.tuned_products import ProductSchedule, has_tuned_product
from ..dialect.scheduling.tuning.product_candidates import ProductShape, product_candidates
from ..dialect.steering.asking import steered_by

CALLS = "calls"  # the name of the program in which the product is a call


class NotMeasured(Exception):
    """A product of which no kernel is measured; says why."""


@dataclass(frozen=True)
class ProductPrograms:
    """`modules`: programs by name, that of the calls first; `schedules`: of the others, what their kernel has."""

    modules: dict[str, ir.Module]
    schedules: dict[str, ProductSchedule]

    @staticmethod
    def of(lone: LoneProduct, product: Product, pipeline: Pipeline, machine: CudaMachine) -> "ProductPrograms":
        """`pipeline`: the passes from `expand-products` on, for a GPU that is `machine`. Raises `NotMeasured`, and what passes raise."""
        calls, kernels = lone.module(), lone.module()
        for module, mark in ((calls, ir.BoolAttr.get(False)), (kernels, ir.UnitAttr.get())):
            (graph,) = graph_functions(module)
            for view in graph.regions[0].blocks[0].operations:
                if view.operation.name == "func.call":
                    view.operation.attributes[TUNED_PRODUCT] = mark
        with steered_by(None):  # nobody asks the user's plug-in about programs that are not run
            for module in (calls, kernels):
                pipeline.run(module)
        own = [ProductSchedule.of(from_attribute(kernel)) for kernel in _products(kernels)]
        if len(own) != 1 or own[0] is None:
            raise NotMeasured("no kernel of tensor cores can take it, with what is computed from it")
        text = kernels.operation.get_asm(enable_debug_info=True)
        modules, schedules = {CALLS: calls}, {}
        for number, schedule in enumerate(product_candidates(shape_of(product), own[0], machine)):
            name = f"kernel {number}"
            modules[name], schedules[name] = ir.Module.parse(text), schedule
            (kernel,) = _products(modules[name])
            changed = to_attribute(schedule.applied(from_attribute(kernel)))
            kernel.attributes["schedule"] = ScheduleAttr.get(changed)
        return ProductPrograms(modules, schedules)


def _products(module: ir.Module) -> list[ir.Operation]:
    """The kernels of a program that have the product."""
    kernels = [kernel for function in functions(module) if (kernel := kernel_op(function)) is not None]
    return [kernel for kernel in kernels if has_tuned_product(kernel.regions[0].blocks[0])]


def shape_of(product: Product) -> ProductShape:
    """That of a product of static sizes."""
    rows, summed, columns = (constant(size) or 0 for size in product.sizes)
    batch = product.result.type.shape[0] if product.result.type.rank == 3 else 1
    element = product.x.type.element_type
    tf32 = isinstance(element, ir.F32Type) and allows_tf32()
    return ProductShape(batch, rows, summed, columns, byte_width(element), tf32)
