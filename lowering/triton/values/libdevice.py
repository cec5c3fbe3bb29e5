"""Functions of NVIDIA's libdevice, which torch's own CUDA kernels call too: operation -> name. f32 takes the suffix `f`, f64 none.

Triton's `math.exp` and its like are the GPU's approximate instructions; these are the accurate ones.
"""

LIBDEVICE = {
    "math.acos": "__nv_acos",
    "math.acosh": "__nv_acosh",
    "math.asin": "__nv_asin",
    "math.asinh": "__nv_asinh",
    "math.atan": "__nv_atan",
    "math.atan2": "__nv_atan2",
    "math.atanh": "__nv_atanh",
    "math.cbrt": "__nv_cbrt",
    "math.copysign": "__nv_copysign",
    "math.cos": "__nv_cos",
    "math.cosh": "__nv_cosh",
    "math.erf": "__nv_erf",
    "math.erfc": "__nv_erfc",
    "math.exp": "__nv_exp",
    "math.exp2": "__nv_exp2",
    "math.expm1": "__nv_expm1",
    "math.log": "__nv_log",
    "math.log10": "__nv_log10",
    "math.log1p": "__nv_log1p",
    "math.log2": "__nv_log2",
    "math.powf": "__nv_pow",
    "math.round": "__nv_round",
    "math.roundeven": "__nv_rint",
    "math.rsqrt": "__nv_rsqrt",
    "math.sin": "__nv_sin",
    "math.sinh": "__nv_sinh",
    "math.tan": "__nv_tan",
    "math.tanh": "__nv_tanh",
    "math.trunc": "__nv_trunc",
    "arith.remf": "__nv_fmod",
}
