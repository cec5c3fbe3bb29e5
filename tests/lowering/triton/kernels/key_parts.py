"""Attentions whose keys go into parts of a given size, whatever that costs, so that small ones can be looked at."""

import pytest
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.passes.products import fuse_attention
from bascule.dialect.scheduling.gpu.attention import KeyParts, found_in


def in_parts_of(monkeypatch: pytest.MonkeyPatch, size: int | None, turn: int = 0) -> None:
    """Has keys go into parts of `size`, where they are more, `turn` of them in turns; None: into none."""

    def key_parts(domain):
        found = found_in(domain)
        keys = constant(found[0].scores.sizes[0]) if len(found) == 1 and found[0].normalizers else None
        if size is None or keys is None or keys <= size:
            return None
        return KeyParts(expr(-(-keys // size)), size, keys % size == 0, "a test", turn)

    monkeypatch.setattr(fuse_attention, "key_parts", key_parts)
