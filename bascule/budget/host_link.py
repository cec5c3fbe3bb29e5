"""The link of a GPU to its host, by what is known of machines: in bytes that the GPU moves in its own memory meanwhile."""

from bascule.frontend.partitioner.host_copies import Link

from ..dialect.machines.measures import value

MACHINE, LINK = "h200", "pcie"


def host_link() -> Link:
    """The link of an H200, whose times stand for those of any device."""
    memory = value(MACHINE, "memory_rate")
    rates = (value(MACHINE, name) / memory for name in ("product_rate", "product_rate_f32"))
    slower = min(value(LINK, "to_host"), value(LINK, "to_device"))
    return Link(memory / slower, memory * value(LINK, "latency"), (next(rates), next(rates)))
