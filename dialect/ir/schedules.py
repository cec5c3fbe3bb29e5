"""The keys of `#bascule.schedule`, with the classes of their values. What they mean is told at the pass `schedule-kernels`; whether they fit a
kernel is for the lowering that reads them to say."""

from typing import Any

from ..mlir import ir
from .attributes import ScheduleAttr, value_of

# A table is key -> (class, or table of a dictionary, or list of either; whether it may be left out).
Keys = dict[str, tuple[Any, bool]]

INT, INTS, TEXT, FLAG, MAP = ir.IntegerAttr, ir.DenseI64ArrayAttr, ir.StringAttr, ir.BoolAttr, ir.AffineMapAttr

_CPU_LOOP: Keys = {
    **{
        key: (INT, True)
        for key in (
            "vector",
            "lanes",
            "prefetch",
            "short",
            "joins",
            "blocked",
            "block",
            "across",
            "rows",
            "grain",
            "fission",
        )
    },
    "groups": ([INTS], True),
    "serial": (INTS, True),
    "tile": (TEXT, True),
}
_CUDA_LOOP: Keys = {
    "order": (INTS, False),
    "step": (INT, False),
    "walk": (INT, False),
    "evict": (TEXT, False),
    **{key: (FLAG, True) for key in ("held", "dot", "skip", "segments")},
    **{key: (INT, True) for key in ("along", "fold", "kept", "unroll")},
    "descriptors": (INTS, True),
}
_CUDA_LOOP["loops"] = ([_CUDA_LOOP], True)
_DOMAIN: Keys = {
    "kind": (TEXT, True),
    **{key: (INTS, False) for key in ("order", "axes", "tile")},
    "loops": ([_CUDA_LOOP], False),
    **{key: (INT, True) for key in ("group", "programs", "consumers")},
}
_LAUNCH: Keys = {
    "target": (TEXT, False),
    **{key: (INT, False) for key in ("warps", "stages", "index_bits", "capability")},
    "resident": (INT, True),
    "cluster": (INT, True),
    "narrow": (MAP, True),
}
_TARGETS: dict[str, Keys] = {
    "cpu": {
        "target": (TEXT, False),
        "domain": (_CPU_LOOP, False),
        "loops": ([_CPU_LOOP], False),
        "nontemporal": (FLAG, True),
    },
    "cuda": _LAUNCH | _DOMAIN,
}
_GROUP: Keys = _LAUNCH | {"kind": (TEXT, True), "parts": ([_DOMAIN], False)}


def complaint(attribute: ir.Attribute | None) -> str | None:
    """Tells what is wrong with the keys of a kernel's `schedule`, or the classes of their values. One for a target unknown here may have any."""
    if not isinstance(attribute, ScheduleAttr):
        return "is no #bascule.schedule"
    config = ir.DictAttr(attribute.config)
    if "target" in config and not isinstance(value_of(config, "target"), TEXT):
        return f"has no {TEXT.__name__} at 'target'"
    target = config["target"].value if "target" in config else ""
    if target not in _TARGETS:
        return None
    return _dictionary(config, _GROUP if target == "cuda" and "parts" in config else _TARGETS[target], "")


def _dictionary(config: ir.DictAttr, keys: Keys, path: str) -> str | None:
    found = {config[number].name: value_of(config, config[number].name) for number in range(len(config))}
    for key, attribute in found.items():
        if key not in keys:
            return f"has the unknown key '{path}{key}'; known: {', '.join(keys)}"
        if attribute is None:
            return f"has a value of no known type at '{path}{key}'"
        wrong = _value(attribute, keys[key][0], f"{path}{key}")
        if wrong:
            return wrong
    missing = next((key for key, (_, optional) in keys.items() if not optional and key not in found), None)
    return f"lacks the key '{path}{missing}'" if missing else None


def _value(attribute: ir.Attribute, kind: Any, path: str) -> str | None:
    if isinstance(kind, list):
        if not isinstance(attribute, ir.ArrayAttr):
            return f"has no array at '{path}'"
        try:
            entries = (_value(entry, kind[0], f"{path}[{number}]") for number, entry in enumerate(attribute))
            return next(filter(None, entries), None)
        except TypeError:  # the bindings have no class for one
            return f"has a value of no known type in '{path}'"
    if isinstance(kind, dict):
        if not isinstance(attribute, ir.DictAttr):
            return f"has no dictionary at '{path}'"
        return _dictionary(attribute, kind, f"{path}.")
    return None if isinstance(attribute, kind) else f"has {attribute} at '{path}', which is no {kind.__name__}"
