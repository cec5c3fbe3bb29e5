# RUN: bascule-opt %S/pass_from_outside.py.mlir --load-pass=%S/pass_from_outside.py:RenameFunctions --rename-functions | filecheck %s --check-prefix=FILE
# RUN: cd %S && bascule-opt pass_from_outside.py.mlir --load-pass=pass_from_outside.py:RenameFunctions --rename-functions | filecheck %s --check-prefix=FILE
# FILE: func.func @f_new
# RUN: not bascule-opt %S/pass_from_outside.py.mlir --load-pass=%S/no_such.py:Pass 2>&1 | filecheck %s --check-prefix=MISSING
# MISSING: cannot load the pass '{{.*}}no_such.py:Pass': there is no file '{{.*}}no_such.py'
# MISSING-NEXT: hint: give it as path/to/file.py:Class
# RUN: not bascule-opt %S/pass_from_outside.py.mlir --load-pass=%S/pass_from_outside.py:Other 2>&1 | filecheck %s --check-prefix=CLASS
# CLASS: cannot load the pass '{{.*}}pass_from_outside.py:Other': AttributeError
# RUN: not bascule-opt %S/pass_from_outside.py.mlir --load-pass=%s:Broken 2>&1 | filecheck %s --check-prefix=RAISES
# RAISES: cannot load the pass '{{.*}}load_pass_from_file.py:Broken': KeyError
raise KeyError("of a file")
