"""Costs with which schedules are told by hand: a byte on the links takes a second, a copy nothing, or what it is asked to."""

from dataclasses import dataclass

from bascule.dialect.collectives.simulation import Times


@dataclass
class ByHand:
    copy: float = 0.0
    launch: float = 0.0

    def collective(self, start):
        return float(start.bytes)

    def copied(self, bytes_):
        return self.copy * bytes_

    def times(self, ops, alone, filling):
        return Times(ops, alone, 1.0, filling)
