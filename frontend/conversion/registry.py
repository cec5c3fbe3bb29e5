"""The registry of `torch-to-bascule`: a rule for each operator that is generated, found in `rules/`.

A rule rewrites one torch op. It is a function `rule(c, *arguments)`: `c` is the `Conversion` and the arguments are those of the
operator's schema, all of them and in its order, decoded to Python: a tensor is its converted `ir.Value` (or None), numbers are
int / float / bool / complex, an integer computed from symbols is an `ir.AffineExpr`, lists are lists, None is None, a dtype (layout, memory
format) is its number (`dialect/ir/scalar_types.py`), a device is text. Where the schema has a tensor, a number may stand: eager's wrapped
number, as in `aten.add.Tensor(x, 2)`. It returns the converted result(s): a Value, or a list of them in the order of the op's results.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}  # "aten.add.Tensor" -> rule; filled when `rules/` is imported
_USERS: dict[str, str | None] = {}  # operators whose rules do not come with Bascule -> their versions
RULES_IN = "bascule.frontend.rules"
FAMILIES = (
    "elementwise.pointwise",
    "elementwise.comparisons",
    "elementwise.bits",
    "calls.assertions",
    "elementwise.division",
    "elementwise.gcd",
    "elementwise.activations",
    "reduce.losses",
    "elementwise.casts",
    "shape.creation",
    "reduce.reductions",
    "reduce.var_mean",
    "special.gamma_erf",
    "special.bessel",
    "special.bessel_airy",
    "special.zeta",
    "special.orthogonal_polynomials",
    "special.incomplete_gamma",
    "reduce.softmax",
    "reduce.normalizations",
    "shape.views",
    "index.indexing",
    "index.masked_select",
    "index.scatter",
    "spatial.unpooling",
    "index.embedding_bags",
    "shape.cat_stack",
    "spatial.padding",
    "shape.rearrangements",
    "shape.slice_scatters",
    "reduce.scans",
    "calls.random",
    "calls.inductor_prims",
    "spatial.pooling",
    "spatial.adaptive_pooling",
    "spatial.fractional_pooling",
    "spatial.im2col",
    "spatial.interpolation",
    "spatial.antialiased_interpolation",
    "spatial.grid_sampling",
    "calls.effects",
    "index.histogram",
    "shape.copy_into",
    "calls.symbolic_numbers",
    "calls.foreach",
    "calls.left_to_aten",
)


class NoRule(Exception):
    """Raised by a rule for arguments it does not take: the operator then goes to ATen, and what was built is dead. Its text is the reason."""


class LeftToAten(NoRule):
    """Raised by a rule for what ATen is to do on purpose: `fallback="error"` does not refuse it."""


def rule(*operators: str, version: str | None = None) -> Callable[[Rule], Rule]:
    """Registers a rule for operators named as `aten.add.Tensor` (overload `default` included in the name).

    `version`, of a rule that does not come with Bascule, stands for its code in the keys of the disk cache, which does without graphs where a
    rule has none.
    """
    own = str(sys._getframe(1).f_globals.get("__name__")).startswith("bascule.")

    def register(function: Rule) -> Rule:
        for operator in operators:
            assert operator not in RULES, f"two rules for {operator}"
            RULES[operator] = function
            if not own:
                _USERS[operator] = version
        return function

    return register


def users_rules() -> tuple[str | None, list[list[str]]]:
    """An operator whose rule is a user's and has no version, if there is one; what tells apart those that have."""
    unknown = next((name for name, version in _USERS.items() if version is None), None)
    return unknown, sorted([name, version or ""] for name, version in _USERS.items())


@cache
def load_rules() -> dict[str, Rule]:
    """All rules; imports the families when first asked."""
    for family in FAMILIES:
        import_module(f"{RULES_IN}.{family}")
    return RULES
