"""Mutations of a module's text, as `mutated_ir.py` draws them: each takes the text and a source of numbers, and gives another text, which need
not be valid; or None where it does not apply."""

import re
from collections.abc import Callable
from random import Random

from bascule.dialect.contract.attributes import KINDS as KINDS_OF_OPS
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import functions
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir

from tests.dialect.attribute_texts import TEXTS
from tests.generators.foreign_ops import foreign, visible

Mutation = Callable[[str, Random], str | None]

# Attributes of the dialect that stand anywhere: those of functions and ops, and marks in bodies.
MARKS = tuple(
    f"bascule.{name}"
    for name in ["ordered", "fused", "inlined", "tail", "arena", "checked", "stored", "cast", "tuned_product"]
)
KINDS = (
    *TEXTS,
    "@main",
    "true",
    "1.5 : f32",
    "dense<1> : tensor<4xi64>",
    "f32",
    "#bascule.operand<7>",
    "array<i64>",
    "affine_map<() -> ()>",
    '""',
)
NUMBERS = (-1, 0, 1, 2, 3, 7, 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 70)
ELEMENTS = (
    "f16",
    "bf16",
    "f32",
    "f64",
    "i1",
    "i8",
    "i32",
    "i64",
    "ui8",
    "index",
    "complex<f32>",
    "f8E4M3FN",
    "i128",
    "vector<4xf32>",
)
_NUMBER = re.compile(r"(?<![\w#%@.^])-?\b\d+\b(?![.\w])|(?<=[x<])\d+(?=x)")
_TYPE = re.compile(r"(tensor|memref)<((?:[\d?*]+x)*)(\w+)((?:, [^<>]*(?:<[^<>]*(?:<[^<>]*>)?[^<>]*>)?)?)>")


def _changed(text: str, change: Callable[[ir.Module, list[ir.Operation]], object]) -> str | None:
    """The text after `change` of the module, which is given its ops; None where that gives False."""
    with context() as ctx:
        ctx.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(text)
            return None if change(module, ops_in(module.operation)[1:]) is False else _text(module)
        except (ir.MLIRError, ValueError):
            return None


def _text(module: ir.Module) -> str:
    return module.operation.get_asm(use_local_scope=True)


# -- attributes --------------------------------------------------------------------------------------------------------------


def attribute_dropped(text: str, random: Random) -> str | None:
    return _attribute(text, random, lambda old: None)


def attribute_of_another_kind(text: str, random: Random) -> str | None:
    return _attribute(text, random, lambda old: ir.Attribute.parse(random.choice(KINDS)))


def attribute_of_another_value(text: str, random: Random) -> str | None:
    """A number in it is another one, an entry of it is gone, or is there twice."""

    def edit(old: ir.Attribute) -> ir.Attribute | None:
        if isinstance(old, ir.ArrayAttr) and len(old) and random.random() < 0.5:
            entries, at = list(old), random.randrange(len(old))
            entries[at : at + 1] = random.choice([[], [entries[at]] * 2, [ir.UnitAttr.get()]])
            return ir.ArrayAttr.get(entries)
        if isinstance(old, ir.DenseI64ArrayAttr) and random.random() < 0.7:
            numbers = list(old)
            at = random.randrange(len(numbers) + 1)
            numbers[at : at + random.randint(0, 1)] = [random.choice(NUMBERS[:-1])] * random.randint(0, 2)
            return ir.DenseI64ArrayAttr.get(numbers)
        return ir.Attribute.parse(_renumbered(str(old), random) or str(old))

    return _attribute(text, random, edit)


def _attribute(text: str, random: Random, edit: Callable[[ir.Attribute], ir.Attribute | None]) -> str | None:
    """One attribute of an op, of an argument or of a result, ours more often, is another one."""

    def change(module: ir.Module, ops: list[ir.Operation]) -> bool | None:
        found = [(op, name) for op in ops for name in op.attributes if name != "sym_name"]
        own = [(op, name) for op, name in found if name.startswith("bascule.") or name in ("arg_attrs", "res_attrs")]
        op, name = random.choice(own if own and random.random() < 0.7 else found or [(None, "")])
        if op is None:
            return False
        new, old = None, op.attributes[name]
        if name in ("arg_attrs", "res_attrs"):
            told = list(old)
            at = random.choice([n for n, each in enumerate(told) if len(each)])
            entry = random.choice(list(told[at]))
            made = edit(entry.attr)
            told[at] = ir.DictAttr.get(
                {e.name: e.attr for e in told[at] if e.name != entry.name} | ({entry.name: made} if made else {})
            )
            new = ir.ArrayAttr.get(told)
        else:
            new = edit(old)
        if new is None:
            del op.attributes[name]
        else:
            op.attributes[name] = new
        return None

    return _changed(text, change)


ADDED = sorted({*KINDS_OF_OPS, *MARKS})


def attribute_added(text: str, random: Random) -> str | None:
    def change(module: ir.Module, ops: list[ir.Operation]) -> None:
        op = random.choice(ops)
        values = (
            *KINDS,
            "array<i64: 0>",
            "array<i64: 1, 0>",
            "array<i64: 0, 0>",
            "array<i64: -1>",
            "1 : i64",
            '["s0"]',
            '["tensor 9"]',
        )
        values += (
            '[{input = 9 : i64, kind = "size", dim = 9 : i64, scale = 0 : i64, offset = 0 : i64}]',
            '[{kind = "computed", value = []}]',
        )
        op.attributes[random.choice(ADDED)] = ir.Attribute.parse(random.choice(values))

    return _changed(text, change)


# -- numbers, types, tokens --------------------------------------------------------------------------------------------------


def _renumbered(text: str, random: Random) -> str | None:
    places = list(_NUMBER.finditer(text))
    if not places:
        return None
    at = random.choice(places)
    old = int(at[0])
    return text[: at.start()] + str(random.choice([*NUMBERS, old + 1, old - 1, 2 * old])) + text[at.end() :]


def number(text: str, random: Random) -> str | None:
    return _renumbered(text, random)


def type_of_all(text: str, random: Random) -> str | None:
    """Each occurrence of one type of tensors is another type: of other elements, sizes, rank, layout or memory space."""
    found = [*dict.fromkeys(match[0] for match in _TYPE.finditer(text))]
    if not found:
        return None
    old = random.choice(found)
    match = _TYPE.fullmatch(old)
    assert match is not None
    return text.replace(old, _other_type(match, random))


def _other_type(match: re.Match, random: Random) -> str:
    kind, sizes, element, layout = match.groups()
    parts = sizes.split("x")[:-1]
    match random.randrange(7):
        case 0:
            element = random.choice(ELEMENTS)
        case 1 if parts:
            parts[random.randrange(len(parts))] = random.choice(["?", "0", "1", "2", "64", "99999999999"])
        case 2:
            parts = random.choice([parts[1:], [*parts, "1"], ["2", *parts], ["*"], parts[::-1], []])
        case 3:
            layout = random.choice(
                ["", ", #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 4)>>", ", strided<[?, 1], offset: ?>"]
            )
        case 4:
            layout += random.choice([", 1", ", 3 : i32", ', "gpu"'])
        case 5:
            kind = "memref" if kind == "tensor" else "tensor"
        case 6:
            dims = ", ".join(f"d{n}" for n in range(len(parts)))
            linear = (
                random.choice(["0", "d0", f"{dims.replace(', ', ' + ')}", "d0 * -1", "d0 * s0", "d0 mod 2", "d0 + 7"])
                if parts
                else "0"
            )
            symbols = "[s0]" if "s0" in linear else ""
            map_ = f"affine_map<({dims}){symbols} -> ({linear})>"
            layout = f", #bascule.layout<{map_}>" if kind == "tensor" else f", {map_}"
    return f"{kind}<{''.join(f'{part}x' for part in parts)}{element}{layout}>"


def element_of_all(text: str, random: Random) -> str | None:
    """All of one scalar type are another, in types and beside operations."""
    found = [e for e in ELEMENTS[:9] if re.search(rf"(?<![\w.])(?:\d+x)*{e}\b", text)]
    if not found:
        return None
    old = random.choice(found)
    return re.sub(rf"(?<=[ x<(]){old}\b", random.choice(ELEMENTS[:9]), text)


def token(text: str, random: Random) -> str | None:
    """One token is gone, is there twice, or is another one of the text."""
    tokens = list(re.finditer(r"\"[^\"\n]*\"|[%@#^!]?[\w.$]+|->|\S", text))
    if not tokens:
        return None
    at, other = random.choice(tokens), random.choice(tokens)[0]
    return text[: at.start()] + random.choice(["", f"{at[0]} {at[0]}", other, other]) + text[at.end() :]


# -- operands and operations -------------------------------------------------------------------------------------------------


def operand(text: str, random: Random) -> str | None:
    """An operand is another value, mostly of its type."""

    def change(module: ir.Module, ops: list[ir.Operation]) -> bool | None:
        op = random.choice([op for op in ops if len(op.operands)] or [None])
        if op is None:
            return False
        at = random.randrange(len(op.operands))
        known = visible(op)
        same = [value for value in known if value.type == op.operands[at].type]
        chosen = random.choice(same if same and random.random() < 0.8 else known or [op.operands[at]])
        op.operands[at] = chosen
        return None

    return _changed(text, change)


def operands_swapped(text: str, random: Random) -> str | None:
    def change(module: ir.Module, ops: list[ir.Operation]) -> bool | None:
        op = random.choice([op for op in ops if len(op.operands) > 1] or [None])
        if op is None:
            return False
        i, j = random.sample(range(len(op.operands)), 2)
        op.operands[i], op.operands[j] = op.operands[j], op.operands[i]
        return None

    return _changed(text, change)


def erased(text: str, random: Random) -> str | None:
    """An op is gone; what used its results uses other values of their types."""

    def change(module: ir.Module, ops: list[ir.Operation]) -> bool | None:
        op = random.choice(ops)
        known = visible(op)
        for result in op.results:
            others = [value for value in known if value.type == result.type]
            if not others and len(list(result.uses)):
                return False
            if others:
                result.replace_all_uses_with(random.choice(others))
        op.erase()
        return None

    return _changed(text, change)


def twice(text: str, random: Random) -> str | None:
    """An op, a function among them, stands there twice; uses of the first may be of the second."""

    def change(module: ir.Module, ops: list[ir.Operation]) -> None:
        op = random.choice(ops)
        copy = op.clone(ir.InsertionPoint(op))
        if "sym_name" in copy.attributes and random.random() < 0.7:
            copy.attributes["sym_name"] = ir.StringAttr.get("again")
        if random.random() < 0.5:
            for old, new in zip(op.results, copy.operation.results):
                old.replace_all_uses_with(new)

    return _changed(text, change)


def moved(text: str, random: Random) -> str | None:
    def change(module: ir.Module, ops: list[ir.Operation]) -> None:
        op, other = random.choice(ops), random.choice(ops)
        around = other
        while around is not None:
            if around == op:
                return
            around = around.parent and around.parent.operation
        op.move_before(other)

    return _changed(text, change)


def emptied(text: str, random: Random) -> str | None:
    """A region has nothing in it, or its terminator alone."""

    def change(module: ir.Module, ops: list[ir.Operation]) -> bool | None:
        regions = [r for op in ops for r in op.regions if len(r.blocks)]
        if not regions:
            return False
        block = random.choice(regions).blocks[0]
        kept = [] if random.random() < 0.5 else [list(block.operations)[-1].operation]
        whole = [each for op in block.operations for each in ops_in(op.operation)]
        for op in whole:
            for result in op.results:
                others = [a for a in block.arguments if a.type == result.type]
                if others:
                    result.replace_all_uses_with(others[0])
        for op in [each.operation for each in block.operations][::-1]:
            if op not in kept:
                op.erase()
        return None

    return _changed(text, change)


# -- functions and modules ---------------------------------------------------------------------------------------------------


def function(text: str, random: Random) -> str | None:
    """A function is private, declared alone, a graph or none; it, or the module, stands in another module."""

    def change(module: ir.Module, ops: list[ir.Operation]) -> bool | None:
        known = functions(module)
        if not known:
            return False
        chosen = random.choice(known)
        match random.randrange(6):
            case 0:
                chosen.attributes["sym_visibility"] = ir.StringAttr.get(random.choice(["private", "nested"]))
            case 1:
                if "bascule.graph" in chosen.attributes:
                    del chosen.attributes["bascule.graph"]
                else:
                    chosen.attributes["bascule.graph"] = ir.UnitAttr.get()
            case 2:
                chosen.attributes["sym_name"] = ir.StringAttr.get(
                    random.choice(["", "a b", "\u03bb", "aten.add", "main", "_mlir_main"])
                )
            case 3:
                inner = ir.Operation.create(
                    "builtin.module", regions=1, ip=ir.InsertionPoint(chosen), loc=chosen.location
                )
                at = ir.InsertionPoint(inner.regions[0].blocks.append())
                chosen.clone(at)
                chosen.erase()
            case 4:
                for each in ops:
                    if each.name == "func.call" and random.random() < 0.5:
                        each.attributes["callee"] = ir.FlatSymbolRefAttr.get(
                            random.choice(known).attributes["sym_name"].value
                        )
            case _:
                chosen.attributes["sym_visibility"] = ir.StringAttr.get("private")
                del chosen.attributes["bascule.graph"]
        return None

    return _changed(text, change)


def declared(text: str, random: Random) -> str | None:
    """A function without its body."""
    bodies = list(re.finditer(r"^( *)func\.func (private )?(@.*) \{\n(?:.*\n)*?\1\}\n", text, re.MULTILINE))
    if not bodies:
        return None
    at = random.choice(bodies)
    told = re.sub(r"%\w+: ", "", at[3])
    return f"{text[: at.start()]}{at[1]}func.func private {told}\n{text[at.end() :]}"


def wrapped(text: str, random: Random) -> str | None:
    """The module stands in a module, beside another copy of itself, or beside an operation that is no function."""
    return random.choice(
        [
            f"module {{\n{text}\n}}",
            f"module @inner {{\n{text}\n}}\nfunc.func @main() {{ return }}",
            f"module {{\n{text}\n}}\nmodule {{\n{text}\n}}",
            f'"mark.beside"() : () -> ()\n{text}',
            f"memref.global @g : memref<4xf32>\n{text}",
            f"irdl.dialect @d {{}}\n{text}",
        ]
    )


MUTATIONS: tuple[Mutation, ...] = (
    attribute_dropped,
    attribute_of_another_kind,
    attribute_of_another_value,
    attribute_of_another_value,
    attribute_added,
    attribute_added,
    number,
    type_of_all,
    type_of_all,
    element_of_all,
    token,
    operand,
    operands_swapped,
    erased,
    twice,
    moved,
    emptied,
    foreign,
    foreign,
    foreign,
    function,
    declared,
    wrapped,
)
