"""Tiles: what a scalar of a kernel's body is in a program, a scalar or a tensor over the axes that it depends on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bascule.dialect.mlir import ir

from .builder import Builder


@dataclass(frozen=True, order=True)
class Axis:
    """A dimension of tiles: `order` 0 runs along the parallel domain, 1 along an inner loop. `extent` is a power of two."""

    order: int
    extent: int


Axes = tuple[Axis, ...]  # in ascending order
# Of the two words of an element of 128 bits, which no register has: it is only moved, as a tile over this axis too, the last one.
WORDS = Axis(1 << 20, 2)


def is_pair(scalar: ir.Type) -> bool:
    """Whether an element is two words in memory."""
    return isinstance(scalar, ir.IntegerType) and scalar.width == 128


@dataclass(frozen=True)
class Tile:
    value: ir.Value
    axes: Axes = ()


def union(*axes: Axes) -> Axes:
    return tuple(sorted(set().union(*axes)))


def shaped(scalar: ir.Type, axes: Axes) -> ir.Type:
    """The type of a tile of `scalar` over `axes`."""
    return ir.RankedTensorType.get([axis.extent for axis in axes], scalar) if axes else scalar


def places(b: Builder, axis: Axis) -> Tile:
    """0, 1, ... along `axis`, in 32 bits."""
    limits = {"start": b.number(b.i32, 0), "end": b.number(b.i32, axis.extent)}
    return Tile(b.value("tt.make_range", shaped(b.i32, (axis,)), [], limits), (axis,))


def spread(b: Builder, tile: Tile, axes: Axes) -> ir.Value:
    """`tile` over `axes`, which contain its own."""
    value = tile.value
    if tile.axes == axes:
        return value
    if value in b.numbers:
        return b.constant(shaped(value.type, axes), b.numbers[value])
    if not tile.axes:
        return b.value("tt.splat", shaped(value.type, axes), [value])
    scalar = value.type.element_type
    for position, axis in enumerate(axes):
        if axis not in tile.axes:
            shape = list(value.type.shape)
            shape.insert(position, 1)
            type_ = ir.RankedTensorType.get(shape, scalar)
            value = b.value("tt.expand_dims", type_, [value], {"axis": b.number(b.i32, position)})
    return b.value("tt.broadcast", shaped(scalar, axes), [value])


def elementwise(b: Builder, function: Callable[..., ir.Value], tiles: Sequence[Tile]) -> Tile:
    """`function` of the tiles' values, spread over the axes of them all."""
    axes = union(*(tile.axes for tile in tiles))
    return Tile(function(*(spread(b, tile, axes) for tile in tiles)), axes)
