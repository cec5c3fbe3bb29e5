"""Values that options do not take, whatever they are: the error names the option, and nothing else is raised."""

import enum
import math
from dataclasses import fields
from pathlib import Path

import numpy
import pytest
import torch

from bascule import UserError
from bascule.cache.disk import directory
from bascule.options import MODES, Options, list_options, make_options


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    pass


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


NUMBERS = [True, False, 0, 1, -1, 1 << 63, 10**400, 10**5000, -(10**5000), 0.5, -0.5, math.nan, math.inf, -math.inf]
TEXTS = [
    "",
    " ",
    ",",
    "a\0b",
    "\udcff",
    "\u03bb",
    "~no-such-user/x",
    "~a\0b",
    "~\udcff",
    "x" * 5000,
    "x/" * 5000,
    "nan",
    "all",
    "9" * 5000 + " B",
    "0 B",
    "1e9 GiB",
]
PATHS = ["/dev/null", "/dev/null/x", "/proc/self/mem", Path("/nowhere"), b"bytes"]
SCALARS = [
    numpy.int64(1),
    numpy.float32(1),
    numpy.bool_(True),
    numpy.zeros(2),
    torch.tensor(1),
    torch.zeros(2),
    Number.ONE,
]
OTHERS = [None, [], (), {}, set(), [""], ["a"], [1], object(), Unprintable(), int, Options, Text("aten"), Text("")]
VALUES = [*NUMBERS, *TEXTS, *PATHS, *SCALARS, *OTHERS]
NAMES = [f.name for f in fields(Options)]


def refusal(mode, options) -> str | None:
    """The error of options, none where they are taken; what else is raised is a fault."""
    try:
        made = make_options(mode, options)
    except UserError as error:
        return str(error)
    assert hash(made) is not None
    return None


@pytest.mark.parametrize("name", NAMES)
def test_a_value_is_taken_or_refused_by_its_option(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = 0
    for value in VALUES:
        told = refusal(None, {name: value})
        if told is not None:
            refused += 1
            assert told.startswith(f"option '{name}': ") and (len(told) < 1000 or name.endswith("fx_passes"))
    assert refused > len(VALUES) / 2
    assert not list(tmp_path.iterdir()), "nothing is made before something is written"


KINDS = {f.name: type(f.default) for f in fields(Options)}


@pytest.mark.parametrize("name", [name for name in NAMES if KINDS[name] is bool])
def test_a_flag_takes_true_and_false_alone(name):
    taken = [value for value in VALUES if refusal(None, {name: value}) is None]
    assert all(type(value) is bool for value in taken)


@pytest.mark.parametrize("name", [name for name in NAMES if KINDS[name] is int])
def test_a_number_has_bounds(name):
    for value in (math.nan, -1, 1 << 63, 10**5000, True, numpy.int64(1), "1"):
        assert refusal(None, {name: value}) is not None, value
    assert refusal(None, {name: 0}) is None


def test_seconds_are_numbers():
    assert "takes a number, got nan" in refusal(None, {"max_autotune_seconds": math.nan})
    assert refusal(None, {"max_autotune_seconds": math.inf}) is None


@pytest.mark.parametrize("name", ["dump", "replay"])
@pytest.mark.parametrize("value, told", [("a\0b", "null byte"), ("x" * 5000, "too long"), ("", "got ''")])
def test_a_path_that_no_file_system_takes(name, value, told):
    assert told in refusal(None, {name: value})


@pytest.mark.parametrize(
    "value",
    [value for value in VALUES if value is not None and not isinstance(value, dict)],
    ids=lambda v: str(type(v)),
)
def test_modes_and_options_of_other_types(value):
    assert "there is no mode" in refusal(value, None)
    assert "parameter 'options': takes a dictionary" in refusal(None, value)


@pytest.mark.parametrize(
    "name", ["dumpp", "", 1, None, b"dump", ("a",), "\udcff", "triton.", ".", "a.b", "\0", math.nan]
)
def test_names_of_no_option(name):
    assert "there is no option" in refusal(None, {name: 1})


def test_options_of_inductors_that_are_arrays_are_warned_of():
    with pytest.warns(UserWarning, match="'epilogue_fusion' is Inductor's"):
        make_options(None, {"epilogue_fusion": numpy.zeros(2)})


def test_each_error_of_a_choice_names_the_choices():
    for name, told in list_options().items():
        if "; one of " in told:
            assert "known: " in refusal(None, {name: "nothing"})
    assert f"known: {', '.join(MODES)}" in refusal("nothing", None)


def test_a_pipeline_with_half_a_character():
    model = torch.compile(lambda x: x + 1, backend="bascule", options={"pipeline": "builtin.module(\udcff)"})
    with pytest.raises(UserError, match="pipeline:16: "):
        model(torch.ones(4))


@pytest.mark.parametrize("text", ["9" * 5000, "-1", "1e9", "\u00b2", "nan"])
def test_a_limit_of_the_cache_that_is_no_number(monkeypatch, text):
    monkeypatch.setenv(directory.LIMIT_VARIABLE, text)
    directory._unread.cache_clear()
    with pytest.warns(UserWarning, match=r"\$BASCULE_CACHE_LIMIT is '.*', which is no number of bytes"):
        assert directory.limit() == directory.LIMIT
