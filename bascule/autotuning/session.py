"""The conditions of measuring for one graph: the device, the store of what was found, under which versions, the seconds left."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any

from bascule.frontend.aot.graph_key import NotKeyed
from bascule.frontend.fx.matmul_precision import matmul_settings
from bascule.runtime.kernels.cuda_driver import device_name

from ..cache.disk.entry_paths import SCHEDULES
from ..cache.stores.backed_store import BackedStore, store_of
from ..cache.versions import versions
from ..reporting.compile_record import Record

PRODUCTS, KERNELS = STAGES = ("autotune products", "autotune")  # the stages of a compile that measure
OPTION = "max_autotune_seconds"
# Which schedule is fastest differs from run to run, and with it the order of a sum.
DETERMINISTIC = "deterministic algorithms are asked for"


class Session:
    """One graph on GPU number `device`. `store` is None where nothing is kept, `conditions` are part of the key of what is."""

    def __init__(self, device: int, record: Record):
        self.device, self.record = device, record
        self.store: BackedStore | None = store_of(SCHEDULES) if record.options.cache else None
        self.conditions: Mapping[str, Any] = {}
        try:
            self.conditions = {"device": device_name(device), "products": matmul_settings(), **versions()}
        except NotKeyed:
            self.store = None  # our own source changes while it runs
        spent = sum(record.seconds.get(stage, 0.0) for stage in STAGES)
        self._end = perf_counter() + record.options.max_autotune_seconds - spent

    @property
    def is_over(self) -> bool:
        """Whether the seconds of the compile are spent: what was not measured is decided without."""
        return perf_counter() >= self._end

    @property
    def spent(self) -> str:
        """The sentence for what was not measured."""
        return f"not measured: the {self.record.options.max_autotune_seconds:g} s of {OPTION} were spent"

    def known(self, keys: set[str]) -> Mapping[str, bytes]:
        return self.store.find(keys) if self.store is not None and keys else {}

    def keep(self, key: str, content: bytes) -> None:
        if self.store is not None:
            self.store.put(key, content)
