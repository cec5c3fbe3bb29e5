"""Delta debugging: what is left of a module and a pipeline when nothing more can go and the failure stays."""

from collections.abc import Callable
from dataclasses import dataclass

from bascule.dialect.interrupts import pass_on
from bascule.dialect.ir import context
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir
from bascule.dialect.passes.stages import check_signatures
from bascule.errors import BasculeError

from .edits import EDITS, Edit, smaller_sizes

Fails = Callable[[str, tuple[str, ...]], bool]  # whether a module's text still fails under passes as the first one did


@dataclass
class Search:
    """A module's text and its passes, which `fails` holds for; `reduce` makes them smaller. A module that is tried verifies."""

    text: str
    passes: tuple[str, ...]
    fails: Fails
    tests: int = 0

    def reduce(self) -> None:
        """Leaves out passes, which makes all tests after it shorter, applies the edits, then smaller sizes, until none of that finds anything
        more."""
        before = None
        while before != (self.text, self.passes):
            before = self.text, self.passes
            self._reduce_passes()
            for edit in EDITS:
                self._reduce_by(edit)
            self._reduce_sizes()

    def _holds(self, text: str, passes: tuple[str, ...]) -> bool:
        self.tests += 1
        return self.fails(text, passes)

    def _take(self, text: str | None) -> bool:
        """Whether a text is another one that is valid and fails: it is the module then."""
        if text is None or text == self.text or not self._holds(text, self.passes):
            return False
        self.text = text
        return True

    def _reduce_by(self, edit: Edit) -> None:
        """Tries half of the sites of an edit at once, from the last one on, then smaller parts."""
        size = max(1, count_sites(edit, self.text) // 2)
        while size:
            end = count_sites(edit, self.text)
            while end > 0:
                start = max(0, end - size)
                taken = self._take(edited(edit, self.text, range(start, end)))
                end = min(start, count_sites(edit, self.text)) if taken else start
            size //= 2

    def _reduce_sizes(self) -> None:
        again = True
        while again:
            again = any(self._take(valid(change(self.text))) for change in smaller_sizes(self.text))

    def _reduce_passes(self) -> None:
        size = max(1, len(self.passes) // 2)
        while size:
            end = len(self.passes)
            while end > 0:
                start = max(0, end - size)
                fewer = (*self.passes[:start], *self.passes[end:])
                if self._holds(self.text, fewer):
                    self.passes = fewer
                end = start
            size //= 2


class _Contexts:
    """A context for several modules, one after the other: making one takes longer than reading a small module. It keeps the types and attributes
    of all, so that there is a new one after `READ`. Operations of any dialect are taken: the module that is reduced was read."""

    READ = 200

    def __init__(self) -> None:
        self.context: ir.Context | None = None
        self.left = 0

    def __call__(self) -> ir.Context:
        if self.context is None or not self.left:
            self.context, self.left = context(unregistered=True), self.READ
        self.left -= 1
        return self.context


_shared = _Contexts()


def count_sites(edit: Edit, text: str) -> int:
    with _shared():
        return len(edit.sites(ir.Module.parse(text)))


def edited(edit: Edit, text: str, numbers: range) -> str | None:
    """The text after an edit of the sites of these numbers; None where that is no valid module."""
    with _shared(), ir.Location.unknown():
        module = ir.Module.parse(text)
        sites = edit.sites(module)
        try:
            edit.apply(module, [sites[n] for n in numbers])
        except Exception as error:  # what an edit leaves for its next site may be anything
            pass_on(error)
            return None
        return valid(module.operation.get_asm(print_generic_op_form=True))


def valid(text: str) -> str | None:
    """The text of a module as it is printed; None for one that does not parse, does not verify, or has no complete signatures."""
    with _shared() as ctx:
        handler = ctx.attach_diagnostic_handler(lambda _: True)
        try:
            module = ir.Module.parse(text)
            check_signatures(module)
            return module.operation.get_asm()
        except (BasculeError, ir.MLIRError, ValueError):
            return None
        finally:
            handler.detach()


def operations(text: str) -> int:
    with _shared():
        return len(ops_in(ir.Module.parse(text).operation)) - 1
