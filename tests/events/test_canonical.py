import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlab.errors import PayloadError
from agentlab.events import canonical, input_hash, parse, plain

SURROGATE_PAIR = ("\ud800", "\udbff")
TEXT = st.text(st.characters(exclude_categories=())).filter(
    lambda s: (
        not any(
            SURROGATE_PAIR[0] <= a <= SURROGATE_PAIR[1] and "\udc00" <= b <= "\udfff"
            for a, b in zip(s, s[1:], strict=False)
        )
    )
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_goes_in_comes_back(value):
    text = canonical(value)
    text.encode()
    assert parse(text) == value


@given(st.dictionaries(TEXT, st.integers(), min_size=2, max_size=5))
def test_key_order_does_not_matter(value):
    backwards = dict(reversed(list(value.items())))
    assert canonical(value) == canonical(backwards)
    assert input_hash("t", value) == input_hash("t", backwards)


@pytest.mark.parametrize("text", ["\ud99c", "a\0b", "x" * 5 + "\ud83d", "😀", "é\n\t"])
def test_hostile_text_round_trips(text):
    assert parse(canonical({"t": text}))["t"] == text


def test_a_pair_of_surrogates_becomes_the_character_it_encodes():
    assert parse(canonical("\ud83d\ude00")) == "😀"


@pytest.mark.parametrize("value", [math.nan, math.inf, b"x", object(), {1, 2}])
def test_what_json_lacks_is_refused_and_plain_carries_it(value):
    with pytest.raises(PayloadError):
        canonical({"v": value})
    canonical({"v": plain(value)})


def test_plain_marks_can_not_be_forged_by_a_users_keys():
    assert plain({"$blob": "x"}) == {"$$blob": "x"}


def test_big_integers_are_exact():
    assert parse(canonical(2**63)) == 2**63
    assert json.loads(canonical(plain(10**5000)))["$int"].startswith("0x")


def test_nesting_without_end_is_cut_not_fatal():
    value: list = []
    for _ in range(3000):
        value = [value]
    with pytest.raises(PayloadError):
        canonical(value)
    canonical(plain(value))
