"""Which collectives are done as one. Pure arithmetic over the sequence of collectives: all ranks decide alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .calls import COALESCED, Start


@dataclass
class Bucket:
    """Collectives that become one, at the place of the first in the sequence, or of the last if not `early`."""

    starts: list[Start] = field(default_factory=list)
    bytes: int = 0
    early: bool = True

    @property
    def place(self) -> int:
        return self.starts[0].number if self.early else self.starts[-1].number


def buckets_of(sequence: Sequence[Start | None], needs: Mapping[int, frozenset[int]], most: int) -> list[Bucket]:
    """Buckets of two collectives or more: of one kind, group and dtype, of static sizes, of `most` bytes together.

    `sequence`: collectives in the order of the program, None for what nothing may pass. A collective joins a bucket if it needs none of it
    and may stand where the first stands, or if all of the bucket may stand where it stands: none between needs them.
    """
    found: list[Bucket] = []
    opened: dict[tuple, Bucket] = {}
    for place, start in enumerate(sequence):
        if start is None:
            opened.clear()
            continue
        if not (start.kind in COALESCED and start.single and start.waits and start.bytes and start.bytes <= most):
            continue
        key = (start.kind, start.rest, start.dtype)
        bucket = opened.get(key)
        if bucket is None or bucket.bytes + start.bytes > most or not _joins(bucket, start, sequence[:place], needs):
            bucket = opened[key] = Bucket()
            found.append(bucket)
        bucket.starts.append(start)
        bucket.bytes += start.bytes
    return [bucket for bucket in found if len(bucket.starts) > 1]


def _joins(bucket: Bucket, start: Start, before: Sequence[Start | None], needs: Mapping[int, frozenset[int]]) -> bool:
    """Whether `start` can join; settles then whether the bucket is an early one."""
    members = {one.number for one in bucket.starts}
    if needs[start.number] & members:
        return False
    first = bucket.starts[0].number
    between = [one.number for one in before if one is not None and first < one.number and one.number not in members]
    if bucket.early and not needs[start.number]:
        return True
    if any(needs[number] & members for number in between):
        return False
    bucket.early = False
    return True
