"""Operators over lists of tensors: the rule of the operator on one tensor, for each."""

from dataclasses import replace

from ...conversion.extern_calls import overload
from ...conversion.registry import RULES, NoRule, Rule, rule

# operator on lists -> operator on the elements. A list argument gives its elements, any other argument is given to all.
_EACH = {
    **{
        f"aten._foreach_{name}.default": f"aten.{name}.default"
        for name in (
            *(
                "abs",
                "acos",
                "asin",
                "atan",
                "ceil",
                "clone",
                "copy",
                "cos",
                "cosh",
                "erf",
                "erfc",
                "exp",
                "expm1",
                "floor",
            ),
            *("frac", "lgamma", "log", "log10", "log1p", "log2", "max", "mm", "neg", "reciprocal", "round", "rsqrt"),
            *("sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "zero"),
        )
    },
    **{
        f"aten._foreach_{name}.{kind}": f"aten.{name}.Tensor"
        for name in ("add", "sub", "mul", "div")
        for kind in ("List", "Scalar", "ScalarList", "Tensor")
    },
    **{
        f"aten._foreach_{name}.{kind}": f"aten.{name}.default"
        for name in ("addcdiv", "addcmul")
        for kind in ("Scalar", "ScalarList")
    },
    **{
        f"aten._foreach_{name}.{kind}": f"aten.{each}.{'Tensor' if kind == 'List' else 'default'}"
        for name, each in (
            ("clamp_max", "clamp_max"),
            ("clamp_min", "clamp_min"),
            ("maximum", "clamp_min"),
            ("minimum", "clamp_max"),
        )
        for kind in ("List", "Scalar", "ScalarList")
    },
    "aten._foreach_lerp.List": "aten.lerp.Tensor",
    "aten._foreach_lerp.Scalar": "aten.lerp.Scalar",
    "aten._foreach_lerp.ScalarList": "aten.lerp.Scalar",
    "aten._foreach_pow.List": "aten.pow.Tensor_Tensor",
    "aten._foreach_pow.Scalar": "aten.pow.Tensor_Scalar",
    "aten._foreach_pow.ScalarList": "aten.pow.Tensor_Scalar",
    "aten._foreach_pow.ScalarAndTensor": "aten.pow.Scalar",
}


def _for_each(operator: str) -> Rule:
    def each(c, *arguments):
        if operator not in RULES:
            raise NoRule(f"no rule for {operator}")
        whole = overload(operator)
        assert whole is not None, f"{operator} is not registered"
        defaults = [argument.default_value for argument in whole._schema.arguments[len(arguments) :]]
        results = []
        for i, (type_, sizes) in enumerate(zip(c.results, c.result_sizes)):
            given = [argument[i] if isinstance(argument, list) else argument for argument in arguments]
            one = replace(c, operator=operator, results=[type_], result_sizes=[sizes])
            made = RULES[operator](one, *given, *defaults)
            results += made if isinstance(made, list) else [made]
        return results

    return each


for _operator, _one in _EACH.items():
    rule(_operator)(_for_each(_one))


@rule("aten._foreach_norm.Scalar")
def norm(c, tensors, order, dtype):
    return _for_each("aten.linalg_vector_norm.default")(c, tensors, order, None, False, dtype)
