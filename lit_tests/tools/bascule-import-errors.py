# RUN: not bascule-import %s:missing 2>&1 | filecheck %s --check-prefix=NAME
# RUN: not bascule-import %s:f 2>&1 | filecheck %s --check-prefix=INPUTS
# RUN: not bascule-import %s:f --inputs 'f32[4],f33[2]' 2>&1 | filecheck %s --check-prefix=DTYPE
# RUN: not bascule-import %s:f --inputs 'f32[4' 2>&1 | filecheck %s --check-prefix=SYNTAX
# RUN: not bascule-import %S/nothing.py:f 2>&1 | filecheck %s --check-prefix=FILE
# RUN: not bascule-import %s 2>&1 | filecheck %s --check-prefix=NOTHING
# RUN: not bascule-import %s:f --inputs 'f32[4],f32[4]' 2>&1 | filecheck %s --check-prefix=CALL
# RUN: not bascule-import %s:breaks --inputs 'f32[4]' 2>&1 | filecheck %s --check-prefix=BREAK
# RUN: not bascule-import %s:f --inputs 'f32[4]' -o /no/such/folder/f.mlir 2>&1 | filecheck %s --check-prefix=WRITE
# RUN: echo 'def f(x: return x' > %t.broken.py
# RUN: not bascule-import %t.broken.py:f 2>&1 | filecheck %s --check-prefix=BROKEN
# RUN: echo 'f, example_inputs = abs, 3' > %t.three.py
# RUN: not bascule-import %t.three.py:f 2>&1 | filecheck %s --check-prefix=THREE

# NAME: has no function 'missing'
# NAME: known: f

# INPUTS: no example inputs
# INPUTS: --inputs

# THREE: example_inputs: are no list, but 3
# THREE: give a list or a tuple of tensors

# DTYPE: --inputs:8: there is no dtype 'f33'
# DTYPE: known: {{.*}}bf16, f32

# SYNTAX: --inputs:1: 'f32[4' is not a tensor

# FILE: there is no file '{{.*}}nothing.py'

# NOTHING: names no function of a file
# NOTHING: give it as file.py:function

# CALL: error: the function does not take its inputs: too many positional arguments
# CALL: hint: there are 2 example inputs

# BREAK: error: Dynamo makes no graph of the function: Unsupported
# BREAK-NOT: Traceback
# BREAK: print(x)

# WRITE: error: -o: cannot write '/no/such/folder/f.mlir'

# BROKEN: error: {{.*}}broken.py: the file fails:
# BROKEN: SyntaxError
# BROKEN: hint: python {{.*}}broken.py shows where


def f(x):
    return x + 1


def breaks(x):
    print(x)
    return x
