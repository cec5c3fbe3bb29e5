# RUN: cd %S && bascule-opt pass_from_outside.py.mlir --load-pass=pass_from_outside:RenameFunctions --rename-functions | filecheck %s --check-prefix=HERE
# HERE: func.func @f_new
# RUN: cd %S && not bascule-opt pass_from_outside.py.mlir --load-pass=pass_that_raises:Raises --raises 2>&1 | filecheck %s
# CHECK: pass_from_outside.py.mlir:1:1: error: in your pass 'raises' (pass_that_raises.py:{{[0-9]+}}): KeyError: 'of a pass'
# CHECK: pass_that_raises.py
# RUN: cd %S && not bascule-opt pass_from_outside.py.mlir --load-pass=pass_that_raises:Nameless 2>&1 | filecheck %s --check-prefix=NAME
# NAME: Nameless'> has no name
# RUN: cd %S && not bascule-opt pass_from_outside.py.mlir --load-pass=pass_that_raises:Needs --needs 2>&1 | filecheck %s --check-prefix=NEEDS
# NEEDS: pass 'needs' needs the option 'width'
# RUN: cd %S && not bascule-opt pass_from_outside.py.mlir --load-pass=pass_that_raises:Needs --needs=sizes=3 2>&1 | filecheck %s --check-prefix=TYPE
# TYPE: option 'sizes' of pass 'needs' is of type {{.*}}list
# RUN: cd %S && not bascule-opt pass_from_outside.py.mlir --load-pass=pass_that_raises 2>&1 | filecheck %s --check-prefix=COLON
# COLON: 'pass_that_raises' names no pass
from dataclasses import dataclass
from typing import ClassVar

from bascule.dialect.passes import Pass


@dataclass(frozen=True)
class Raises(Pass):
    """Fails."""

    name: ClassVar[str] = "raises"

    def run(self, module):
        raise KeyError("of a pass")


@dataclass(frozen=True)
class Nameless(Pass):
    """Has no name."""

    def run(self, module):
        pass


@dataclass(frozen=True)
class Needs(Pass):
    """Has an option without a default."""

    name: ClassVar[str] = "needs"
    width: int
    sizes: list[int] = ()

    def run(self, module):
        pass
