"""The errors that Bascule raises: those that a user can mend, and those that are ours."""

from collections.abc import Sequence


class BasculeError(Exception):
    """The base of every error that Bascule raises on purpose."""


class UserError(BasculeError):
    """Something the user can mend: an option, a pass name, a pipeline, IR that does not parse or verify.

    `location` is where (file:line, an option's name, a column of a pipeline); `hint` says what to change.
    """

    def __init__(self, message: str, *, location: str | None = None, hint: str | None = None):
        self.message, self.location, self.hint = message, location, hint
        text = f"{location}: {message}" if location else message
        super().__init__(f"{text}\n  hint: {hint}" if hint else text)


class UserErrors(UserError):
    """All that is wrong with a module: `errors`, each with its place. Where one is asked for, it is the first."""

    def __init__(self, errors: Sequence[UserError]):
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.message, location=first.location, hint=first.hint)

    def __str__(self) -> str:
        return "\n".join(map(str, self.errors))


class UnsupportedError(UserError):
    """An operator, dtype or device that has no rule here; `operator` names it, and `node` the graph's node if that is known."""

    def __init__(
        self,
        message: str,
        *,
        operator: str = "",
        location: str | None = None,
        hint: str | None = None,
        node: str | None = None,
    ):
        self.operator, self.node = operator, node
        super().__init__(message, location=location, hint=hint)


class CompilerError(BasculeError):
    """A bug of the compiler, or of the pass of a user's that `culprit` names ("your pass 'mine' (mine.py:12)"); `reproducer` is the `.mlir`
    file to replay, with `command`. `suspects`: what of the user's ran before; `local`: the command that replays the pass alone."""

    def __init__(
        self,
        message: str,
        *,
        reproducer: str | None = None,
        command: str | None = None,
        culprit: str | None = None,
        suspects: Sequence[str] = (),
        local: str | None = None,
    ):
        self.message, self.reproducer, self.command, self.culprit, self.local = (
            message,
            reproducer,
            command,
            culprit,
            local,
        )
        if culprit is not None:
            told = f"This is for {culprit} to mend" + (f": {reproducer} shows it." if reproducer else ".")
        else:
            unless = f", unless it is one in {' or '.join(suspects)}, which ran before" if suspects else ""
            told = f"This is a bug in Bascule{unless}. Please report it" + (
                f" with {reproducer}" if reproducer else "."
            )
        replays = [f"replay: {command}"] * bool(reproducer) + [f"the pass alone: {local}"] * bool(local)
        super().__init__("\n  ".join([message, told, *replays]))
