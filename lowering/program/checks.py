"""The lines of a generated module that check what goes in and what is computed, where that is asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bascule.dialect.mlir import ir

from .buffer_places import Places
from .signature import Signature


@dataclass(frozen=True)
class Checks:
    """The checks of a module in each call: `values`, that inputs and what is computed are finite; `layouts`, that inputs lie as they did."""

    values: bool = False
    layouts: bool = False

    def imports(self) -> list[str]:
        return [*["check_finite"] * self.values, *["check_layout"] * self.layouts]

    def of_inputs(self, signature: Signature, places: Places) -> Iterator[str]:
        for value in signature.tensors:
            name = places.tensors[value]
            if self.layouts and value not in signature.restrided:
                yield f'check_layout("{name}", {name}, {places.layout(value)})'
            yield from self.of_values(name, [value], places)

    def of_values(self, what: str, values: Sequence[ir.Value], places: Places) -> Iterator[str]:
        """Checks of `values`, which errors call `what`."""
        for value in self.checked(values):
            yield f'check_finite("{what}", {places.tensor(value)})'

    def checked(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Those of `values` whose elements may be NaN, if values are checked."""
        floats = ir.FloatType | ir.ComplexType
        return [value for value in values if self.values and isinstance(value.type.element_type, floats)]


UNCHECKED = Checks()
