// The options in a pass's flag: a comma ends one where another option follows, else it stands in a list. Spaces end one, as for mlir-opt.
// RUN: bascule-opt %s --canonicalize=max-iterations=3,top-down=false --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=COMMAS
// RUN: bascule-opt %s --canonicalize="max-iterations=3 top-down=false" --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=COMMAS
// COMMAS: builtin.module(canonicalize{max-iterations=3 top-down=false})
// RUN: bascule-opt %s --canonicalize=disable-patterns=a,b,top-down,max-iterations=3 --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=LIST
// LIST: builtin.module(canonicalize{disable-patterns=a,b top-down max-iterations=3})
// RUN: bascule-opt %s --form-kernels=max-ops=3,max-reads=2 --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=OURS
// OURS: builtin.module(form-kernels{max-reads=2 max-ops=3})
// RUN: not bascule-opt %s --form-kernels=max-ops=3,most-ops=2 2>&1 | filecheck %s --check-prefix=NONE
// NONE: no option 'most-ops'
func.func @f() {
  return
}
