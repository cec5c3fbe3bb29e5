"""Values of element types, one or a vector of them: constants, selects, conversions."""

from bascule.dialect.mlir import arith, ir

from .builder import Builder


def element(type_: ir.Type) -> ir.Type:
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


def like(type_: ir.Type, new: ir.Type) -> ir.Type:
    """`new`, as a vector of as many lanes as `type_` has, if that is a vector."""
    return ir.VectorType.get(type_.shape, new) if isinstance(type_, ir.VectorType) else new


def is_float(type_: ir.Type) -> bool:
    return isinstance(element(type_), ir.FloatType)


class Scalars:
    """Makes element-wise ops on values that are all scalars or all vectors of one width, at scope `level`."""

    def __init__(self, builder: Builder, level: int | None = None):
        self.b = builder
        self.level = level

    def at(self, level: int | None) -> "Scalars":
        return Scalars(self.b, level)

    def op(self, name: str, *operands: ir.Value) -> ir.Value:
        return self.b.value(name, operands[0].type, operands, None, self.level)

    unary = op

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x * y + z, rounded once where the machine does that in one instruction."""
        if self.b.fuses:
            return self.op("math.fma", x, y, z)
        return self.op("arith.addf", self.op("arith.mulf", x, y), z)

    def intrinsic(self, name: str, *operands: ir.Value) -> ir.Value:
        """A call of an LLVM intrinsic of the first operand's type."""
        attributes = {
            "intrin": ir.StringAttr.get(name),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
        }
        return self.b.value("llvm.call_intrinsic", operands[0].type, operands, attributes, self.level)

    def convert(self, name: str, x: ir.Value, to: ir.Type) -> ir.Value:
        """A one-operand op from the type of `x` to the element type `to`."""
        return self.b.value(name, like(x.type, to), [x], None, self.level)

    def constant(self, like_type: ir.Type, number: int | float) -> ir.Value:
        return self.b.constant(like_type, number)

    def compare(self, predicate: str, x: ir.Value, y: ir.Value) -> ir.Value:
        floating = is_float(x.type)
        number = arith.CmpFPredicate[predicate.upper()] if floating else arith.CmpIPredicate[predicate]
        attributes = {"predicate": ir.IntegerAttr.get(self.b.i64, number)}
        name = "arith.cmpf" if floating else "arith.cmpi"
        return self.b.value(name, like(x.type, self.b.i1), [x, y], attributes, self.level)

    def select(self, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.b.value("arith.select", x.type, [condition, x, y], None, self.level)

    def is_nan(self, x: ir.Value) -> ir.Value:
        return self.compare("uno", x, x)

    def invert(self, condition: ir.Value) -> ir.Value:
        return self.op("arith.xori", condition, self.constant(condition.type, -1))

    def extreme(self, x: ir.Value, y: ir.Value, largest: bool) -> ir.Value:
        """The larger (smaller) of floats, NaN if either is; of two zeros, `y`. Two instructions and a blend."""
        order = self.compare("ogt" if largest else "olt", x, y)
        return self.select(self.is_nan(x), x, self.select(order, x, y))  # unordered: y
