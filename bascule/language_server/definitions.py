"""The definitions of names in a file of MLIR: SSA values and blocks by their scopes, functions and aliases by their module."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from .tokens import Token, tokens

# What a symbol is defined by stands before it, with words for who sees it between.
_DEFINING = {
    *(
        "func.func",
        "func",
        "builtin.module",
        "module",
        "memref.global",
        "ml_program.global",
        "ml_program.func",
        "llvm.func",
    ),
    *(
        "llvm.mlir.global",
        "gpu.module",
        "gpu.func",
        "emitc.func",
        "transform.named_sequence",
        "irdl.dialect",
        "pdl.pattern",
    ),
}
_VISIBILITY = {"private", "public", "nested", "constant", "external", "internal"}
_FUNCTIONS = {"func.func", '"func.func"'}


@dataclass
class Scope:
    """A region, or a function with its head, whose values nothing outside sees; a module of the file is the outermost."""

    parent: "Scope | None"
    is_function: bool = False
    names: dict[str, list[Token]] = field(
        default_factory=dict
    )  # of values and blocks: the tokens that define them, in order


@dataclass
class Index:
    """The names in a text and their definitions. Made in a time that is linear in the text."""

    tokens: list[Token]
    _scopes: dict[int, Scope] = field(default_factory=dict)  # by the start of a token that is a value or a block
    _globals: dict[int, dict[str, Token]] = field(default_factory=dict)  # by the start of a module of the file
    _starts: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> "Index":
        index = cls(list(tokens(text)))
        index._starts = [token.start for token in index.tokens]
        begin = 0
        for number, token in enumerate(index.tokens):
            if token.kind == "comment" and token.first and token.text.startswith("// -----"):
                index._add_module(begin, number)
                begin = number
        index._add_module(begin, len(index.tokens))
        return index

    def token_at(self, offset: int) -> Token | None:
        """The token that covers `offset`; the name that ends there, before a bracket or a comma too."""
        number = bisect_right(self._starts, offset) - 1
        near = [token for token in self.tokens[max(number - 1, 0) : number + 1] if token.start <= offset <= token.end]
        inside = [token for token in near if token.kind != "mark" and (offset < token.end or token.kind != "comment")]
        return inside[-1] if inside else near[-1] if near else None

    def definition(self, token: Token) -> Token | None:
        """The token that defines what `token` names."""
        if token.kind in ("value", "block"):
            return _resolved(_name(token), token.start, self._scopes[token.start])
        if token.kind in ("symbol", "alias"):
            begin = max((start for start in self._globals if start <= token.start), default=0)
            return self._globals.get(begin, {}).get(_name(token))
        return None

    def _add_module(self, begin: int, end: int) -> None:
        found = [token for token in self.tokens[begin:end] if token.kind != "comment"]
        if not found:
            return
        start = self.tokens[begin].start if begin else 0
        self._globals[start] = {_name(token): token for token in reversed(list(_global_definitions(found)))}
        defining = _local_definitions(found)
        scope = Scope(None)
        for number, token in enumerate(found):
            if token.text == "{":
                scope = Scope(scope)
            elif token.text == "}":
                scope = _outer(scope)
            elif token.text in _FUNCTIONS:
                scope = Scope(scope.parent if scope.is_function else scope, is_function=True)
            elif token.kind in ("value", "block"):
                self._scopes[token.start] = scope
                if number in defining:
                    scope.names.setdefault(_name(token), []).append(token)


def _outer(scope: Scope) -> Scope:
    """The scope behind a closing bracket: a function without a body ends with what is around it."""
    if scope.is_function and scope.parent is not None:
        scope = scope.parent
    return scope.parent or scope


def _name(token: Token) -> str:
    """The name that a token has: `%x` of `%x#1`, `@f` of `@"f"` and of the string `"f"`."""
    if token.kind == "value":
        return token.text.partition("#")[0]
    if token.kind in ("symbol", "string"):
        return "@" + token.text.removeprefix("@").strip('"')
    return token.text


def _resolved(name: str, use: int, scope: Scope) -> Token | None:
    """The last definition before the use, innermost scope first; else, as of blocks, the first one below."""
    chain: list[Scope] = []
    inner: Scope | None = scope
    while inner is not None:
        chain.append(inner)
        inner = None if inner.is_function else inner.parent
    for each in chain:
        before = [token for token in each.names.get(name, ()) if token.start <= use]
        if before:
            return before[-1]
    return next((each.names[name][0] for each in chain if name in each.names), None)


def _global_definitions(found: list[Token]) -> Iterator[Token]:
    """The tokens that define symbols and aliases."""
    for number, token in enumerate(found):
        following = found[number + 1].text if number + 1 < len(found) else ""
        if token.kind == "alias" and token.first and following == "=":
            yield token
        elif token.kind == "symbol":
            before = number - 1
            while before >= 0 and found[before].text.strip('"') in _VISIBILITY:
                before -= 1
            if before >= 0 and found[before].text in _DEFINING:
                yield token
        elif (
            token.kind == "string"
            and number > 1
            and (found[number - 2].text, found[number - 1].text) == ("sym_name", "=")
        ):
            yield token


def _local_definitions(found: list[Token]) -> set[int]:
    """The numbers of tokens that define values and blocks."""
    defining = set[int]()
    for number, token in enumerate(found):
        following = found[number + 1].text if number + 1 < len(found) else ""
        if token.kind == "block" and (token.first or (number and found[number - 1].text == "{")):
            defining.add(number)
            if following == "(":
                defining |= _arguments(found, number + 1)
        elif token.text == "func.func":
            opening = next((n for n in range(number, min(number + 4, len(found))) if found[n].text == "("), None)
            if opening is not None:
                defining |= _arguments(found, opening)
        elif token.kind == "value" and number not in defining:
            before = found[number - 1].text if number else ""
            if following == "=" or (before not in (",", "=") and _is_defined(found, number)):
                defining |= _list_from(found, number)[0]
    return defining


def _arguments(found: list[Token], opening: int) -> set[int]:
    """The numbers of values that have a type, between the bracket at `opening` and its end."""
    values, depth = set(), 0
    for number in range(opening, len(found)):
        text = found[number].text
        depth += (text in ("(", "[", "{", "<")) - (text in (")", "]", "}", ">"))
        if depth == 0:
            break
        if found[number].kind == "value" and depth == 1 and number + 1 < len(found) and found[number + 1].text == ":":
            values.add(number)
    return values


def _list_from(found: list[Token], number: int) -> tuple[set[int], int]:
    """The numbers of the values of a list `%a, %b:2` that begins at `number`, and that of the token behind it."""
    values = set()
    while number < len(found) and found[number].kind == "value":
        values.add(number)
        number += 1
        if number + 1 < len(found) and found[number].text == ":" and found[number + 1].kind == "number":
            number += 2
        if number < len(found) and found[number].text == ",":
            number += 1
        else:
            break
    return values, number


def _is_defined(found: list[Token], number: int) -> bool:
    """Whether the list of values that begins there is that of results, `%a, %b:2 =`, or of a loop's indices, `(%i, %j) =` or `(%i, %j) in`."""
    behind = _list_from(found, number)[1]
    texts = [token.text for token in found[behind : behind + 2]]
    in_brackets = number > 0 and found[number - 1].text == "("
    return texts[:1] == ["="] or (in_brackets and texts in ([")", "="], [")", "in"]))
