"""Definitions by tokens are those of MLIR's parser: names that are changed where they are defined, and wherever that is what they lead to,
leave the module the same."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir
from bascule.dialect.printing.pretty import pretty
from bascule.dialect.tools.parsing import chunks
from hypothesis import given, settings

from bascule.language_server.definitions import Index
from bascule.language_server.tokens import tokens, without_locations
from tests.properties.programs import programs

TESTS = sorted((Path(__file__).parents[2] / "lit_tests").rglob("*.mlir"))


def renamed(text: str) -> str:
    """`text` with a new name for each definition of a value, a block and an alias of an attribute."""
    index, parts, done = Index.of(text), [], 0
    for token in index.tokens:
        if token.kind not in ("value", "block", "alias") or (token.kind == "alias" and "." in token.text):
            continue
        found = index.definition(token)
        if found is None:
            assert token.kind == "alias", f"{token} has no definition"  # a type without parameters, as in !pdl
            continue
        mark, number = token.text[0], token.text.partition("#")[2] if token.kind == "value" else ""
        parts += [text[done : token.start], f"{mark}new{found.start}", f"#{number}" if number else ""]
        done = token.end
    return "".join([*parts, text[done:]])


def parsed(text: str) -> str | None:
    ctx = context()
    ctx.allow_unregistered_dialects = True
    with ctx:
        try:
            return str(ir.Module.parse(text))
        except ir.MLIRError:
            return None


@pytest.mark.parametrize("path", TESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_new_names_leave_the_module_the_same(path):
    for chunk, _ in chunks(path.read_text()):
        before = parsed(chunk)
        if before is not None:
            assert parsed(renamed(chunk)) == before


@settings(deadline=None)
@given(programs())
def test_new_names_leave_a_random_module_the_same(text):
    with context():
        forms = [
            text,
            ir.Module.parse(text).operation.get_asm(print_generic_op_form=True),
            pretty(ir.Module.parse(text)),
        ]
    for form in forms:
        assert parsed(renamed(form)) == parsed(text)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_symbols_have_definitions(path):
    index = Index.of(path.read_text())
    called = [after for token, after in pairwise(index.tokens) if token.text in ("call", "func.call")]
    for token in called:
        found = index.definition(token)
        assert found is None or (found != token and found.text.strip('@"') == token.text.strip('@"'))
    known = [parsed(chunk) is not None for chunk, _ in chunks(path.read_text())]
    assert not all(known) or None not in map(index.definition, called)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_without_locations_all_is_where_it_was(path):
    for chunk, _ in chunks(path.read_text()):
        blank = without_locations(chunk)
        assert [len(line) for line in blank.split("\n")] == [len(line) for line in chunk.split("\n")]
        before = parsed(chunk)
        if before is not None:
            with context() as ctx:
                ctx.allow_unregistered_dialects = True
                located = ir.Module.parse(chunk).operation.get_asm(enable_debug_info=True)
            assert parsed(blank) == before == parsed(without_locations(located))
            assert not re.search(r"\bloc\(", re.sub(r'"[^"\n]*"', "", without_locations(located)))


def definition(text: str) -> str | None:
    """The place that the name at `|` leads to: its line, from 1, and the text."""
    at, index = text.index("|"), Index.of(text.replace("|", ""))
    token = index.token_at(at)
    found = index.definition(token) if token else None
    return None if found is None else f"{text.replace('|', '')[: found.start].count(chr(10)) + 1} {found.text}"


@pytest.mark.parametrize(
    "text, found",
    [
        ("%a = f %|a", "1 %a"),
        ("%a, %b:2 = f\ng %b|#1", "1 %b"),
        ("scf.for %i = %lb to %ub iter_args(%s = %z, %t = %z) {\n use %|t }", "1 %t"),
        ("scf.parallel (%i, %j) = (%a, %b) {\n use %|j }", "1 %j"),
        ("scf.forall (%i, %j) in (4, 4) {\n use %i| }", "1 %i"),
        ("func.func @f(%x: f32) { return %|y", None),
        ("func.func private @f(f32)\nfunc.func @g(%x: f32 {a = 1}) {\n return %|x }", "2 %x"),
        ("func.func @f(%x: f32) { return }\nfunc.func @g(%y: f32) { return %|x }", None),
        ("func.func @f() {\n cf.br ^|bb1(%x : f32)\n^bb1(%v: f32):\n return }", "3 ^bb1"),
        ("func.func @f() {\n^bb1(%v: f32):\n use %|v }", "2 %v"),
        ("r({\n^bb0(%i: index):\n}, {\n^bb0(%i: index):\n use %|i\n})", "4 %i"),
        ("#map = affine_map<()->()>\n// -----\n#map = affine_map<()->()>\nuse #|map", "3 #map"),
        ("func.func private @f()\n// -----\ncall @|f()", None),
        ('"func.func"() <{sym_name = "f"}> ({})\ncall @|f()', '1 "f"'),
        ('memref.global "private" constant @g : x\nuse @|g', "1 @g"),
        ("// %a = x\nuse %|a", None),
        ('%s = "%a = "\nuse %|a', None),
        ("}}} %a = f )>\n%|a ({[<", "1 %a"),
    ],
)
def test_definitions(text, found):
    assert definition(text) == found


def test_tokens_cover_broken_text():
    assert [token.text for token in tokens('%a = "open\n}}) %b#1 ^bb-0')] == [
        "%a",
        "=",
        '"open',
        "}",
        "}",
        ")",
        "%b#1",
        "^bb-0",
    ]
