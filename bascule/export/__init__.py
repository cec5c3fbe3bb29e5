"""An exported program to one package: `aot_compile`, its interface, its writer, its guards.

Loading a package is in `runtime/packages`.
"""
