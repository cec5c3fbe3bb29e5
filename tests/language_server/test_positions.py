"""Positions as MLIR and as editors count them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.language_server.positions import Places

TEXTS = st.text(st.sampled_from("a é\U0001f600\n\r\t"), max_size=30)
SIZES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


@given(TEXTS, st.sampled_from(sorted(SIZES)), st.data())
def test_offsets_come_back(text, encoding, data):
    places = Places(text, encoding)
    offset = data.draw(st.integers(0, len(text)))
    line, character = places.position(offset)
    assert line == text.count("\n", 0, offset)
    if text[offset - 1 : offset] != "\r":
        assert places.offset(line, character) == offset


@given(TEXTS, st.data())
def test_places_of_mlir_count_bytes(text, data):
    offset = data.draw(st.integers(0, len(text)))
    head = text[:offset].rpartition("\n")[2]
    if "\r" not in head:
        assert Places(text).offset_of_mlir(text.count("\n", 0, offset) + 1, len(head.encode()) + 1) == offset


@pytest.mark.parametrize("line, character, offset", [(0, 99, 2), (1, 0, 3), (1, 99, 5), (7, 0, 5), (0, 1, 1)])
def test_what_is_beyond_is_the_end(line, character, offset):
    assert Places("ab\ncd").offset(line, character) == offset


def test_a_character_of_two_units_is_not_cut():
    assert Places("\U0001f600x").offset(0, 1) == 0
    assert Places("\U0001f600x").offset(0, 2) == 1
