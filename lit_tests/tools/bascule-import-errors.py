# RUN: not bascule-import %s:missing 2>&1 | filecheck %s --check-prefix=NAME
# RUN: not bascule-import %s:f 2>&1 | filecheck %s --check-prefix=INPUTS
# RUN: not bascule-import %s:f --inputs 'f32[4],f33[2]' 2>&1 | filecheck %s --check-prefix=DTYPE
# RUN: not bascule-import %s:f --inputs 'f32[4' 2>&1 | filecheck %s --check-prefix=SYNTAX
# RUN: not bascule-import %S/nothing.py:f 2>&1 | filecheck %s --check-prefix=FILE
# RUN: not bascule-import %s 2>&1 | filecheck %s --check-prefix=NOTHING

# NAME: has no function 'missing'
# NAME: known: f

# INPUTS: no example inputs
# INPUTS: --inputs

# DTYPE: --inputs:8: there is no dtype 'f33'
# DTYPE: known: {{.*}}bf16, f32

# SYNTAX: --inputs:1: 'f32[4' is not a tensor

# FILE: there is no file '{{.*}}nothing.py'

# NOTHING: names no function of a file
# NOTHING: give it as file.py:function


def f(x):
    return x + 1
