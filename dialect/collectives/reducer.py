"""The reducer of `DistributedDataParallel` between the graphs of a backward: gradients go into buckets, each of which is reduced once it is
full.

From the second step on the buckets are in the order in which gradients come (PyTorch's `reducer.cpp`). A gradient is copied into its bucket, and
divided by the number of ranks. Buckets are reduced in their order, a later one that is full sooner waits for those before. At the end of the
backward one after the other is waited for and copied to the gradients, unless these are views of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .timeline import ALL_REDUCE, Call, Timeline


@dataclass(frozen=True)
class Gradient:
    """The gradient of a parameter has come. `key`: of its dtype and device; a bucket has one."""

    parameter: str
    bytes: int
    key: str = ""


@dataclass(frozen=True)
class Reducer:
    """How gradients are reduced. `first`, `most`: bytes at which the first bucket and the others are full. `views`: whether gradients lie in the
    buckets."""

    ranks: int
    first: int
    most: int
    views: bool = False

    def buckets(self, gradients: Sequence[Gradient]) -> list[list[Gradient]]:
        """The gradients of each bucket, in the order in which buckets are full; at last those that are not."""
        full: list[list[Gradient]] = []
        filling: dict[str, list[Gradient]] = {}
        limits = dict.fromkeys({each.key for each in gradients}, self.first)
        for each in gradients:
            bucket = filling.setdefault(each.key, [])
            bucket.append(each)
            if sum(one.bytes for one in bucket) >= limits[each.key]:
                full.append(filling.pop(each.key))
                limits[each.key] = self.most
        return [*full, *filling.values()]

    def play(self, timeline: Timeline, backward: Iterable[Sequence[Call] | Gradient]) -> None:
        """Puts on `timeline` the graphs of a backward, and what becomes of the gradients."""
        steps = list(backward)
        buckets = self.buckets([each for each in steps if isinstance(each, Gradient)])
        missing = [{each.parameter for each in bucket} for bucket in buckets]
        begun: list[int] = []
        for each in steps:
            if not isinstance(each, Gradient):
                timeline.call(each)
                continue
            timeline.copy(each.bytes)
            for bucket in missing:
                bucket.discard(each.parameter)
            while len(begun) < len(buckets) and not missing[len(begun)]:
                bytes_ = sum(one.bytes for one in buckets[len(begun)])
                begun.append(timeline.begin(ALL_REDUCE, bytes_, self.ranks))
        for number, reduced in zip(begun, buckets, strict=True):
            timeline.wait(number)
            for each in () if self.views else reduced:
                timeline.copy(each.bytes, kernel=False)
