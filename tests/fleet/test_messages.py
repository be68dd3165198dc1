"""What agents say to each other: whom a text calls, whether it asks, and how far it has come with whom."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import BadInput
from scrubjay.fleet.messages import (
    EVERYBODY,
    TRANSITIONS,
    DeliveryAction,
    DeliveryState,
    asks,
    check_text,
    mentioned,
    next_state,
    parse_channel_name,
)
from scrubjay.ids import parse_pod_name
from tests.support.tables import every_row

_NAMES = ["bob", "bob-2", "bob-", "api.v2", "a", "cat"]


@every_row(
    ("text", "called"),
    [
        ("@bob please", ["bob"]),
        ("@bob", ["bob"]),
        ("ask @bob, @cat", ["bob", "cat"]),
        ("@cat and @bob and @cat", ["cat", "bob"]),
        ("thanks @bob!", ["bob"]),
        ("thanks @bob.", ["bob"]),
        ("@bob... well", ["bob"]),
        ("(@bob)", ["bob"]),
        ("@bob: look", ["bob"]),
        ("@bob's file", ["bob"]),
        ("@bob\N{RIGHT SINGLE QUOTATION MARK}s file", ["bob"]),
        ("@bob\nand more", ["bob"]),
        ("line\n@bob", ["bob"]),
        ("@bob.Then go on", ["bob"]),
        ("@bob-based", ["bob"]),
        ("@bob-2 and not the other", ["bob-2"]),
        ("@bob-2-3", ["bob-2"]),
        ("@bob- is a name too", ["bob-"]),
        ("@bob--", ["bob-"]),
        ("@api.v2.", ["api.v2"]),
        ("@api.v2 is not @api", ["api.v2"]),
        ("@a@bob", ["a"]),
        ("**@bob**", ["bob"]),
        ("\N{FULLWIDTH LEFT PARENTHESIS}@bob\N{FULLWIDTH RIGHT PARENTHESIS}", ["bob"]),
        ("ann@bob", []),
        ("mail bob@bob.example and x.@bob", []),
        ("git@bob:repo", []),
        ("@@bob", []),
        ("@ bob", []),
        ("@bobby", []),
        ("@bobX", []),
        ("@bob\N{LATIN SMALL LETTER E WITH ACUTE}", []),
        ("@bob2", []),
        ("@Bob", []),
        ("@nobody", []),
        ("@" + "a" * 64, []),
        ("bob", []),
        ("", []),
    ],
)
def test_a_name_is_called_with_an_at_sign_and_whatever_stands_behind_it(text: str, called: list[str]) -> None:
    assert mentioned(text, _NAMES) == called


def test_everyone_is_a_name_if_whoever_asks_gives_it() -> None:
    assert mentioned("@everyone stop", ["bob"]) == []
    assert mentioned("@everyone stop", ["bob", EVERYBODY]) == [EVERYBODY]


_names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,62}", fullmatch=True).filter(lambda name: _is_name(name))


def _is_name(name: str) -> bool:
    try:
        parse_pod_name(name)
    except BadInput:
        return False
    return True


@given(name=_names, behind=st.sampled_from([" x", "", "!", ", y", ")", "\n", "?", ":", "'s", '"']))
def test_every_name_of_a_pod_can_be_called(name: str, behind: str) -> None:
    assert mentioned(f"so @{name}{behind}", [name]) == [name]


@given(text=st.text(), names=st.lists(_names, max_size=3))
def test_nobody_is_called_who_is_not_there(text: str, names: list[str]) -> None:
    called = mentioned(text, names)

    assert set(called) <= set(names)
    assert all(f"@{name}" in text for name in called)
    assert len(set(called)) == len(called)


@every_row(
    ("text", "is_question"),
    [
        ("which port?", True),
        ("which port? I need it", True),
        ("really?!", True),
        ("what??", True),
        ("(is it?)", True),
        ('"is it?"', True),
        ("port?\nsoon", True),
        ("哪个端口\N{FULLWIDTH QUESTION MARK}", True),
        ("أي منفذ\N{ARABIC QUESTION MARK}", True),
        ("it is 8080", False),
        ("see http://x/y?port=1", False),
        ("see http://x/y?=1 and /z?&a", False),
        ("grep 'colou?r'", False),
        ("", False),
    ],
)
def test_a_question_mark_at_the_end_of_something_asks(*, text: str, is_question: bool) -> None:
    assert asks(text) == is_question


_STATES: tuple[DeliveryState, ...] = get_args(DeliveryState)
_ACTIONS: tuple[DeliveryAction, ...] = get_args(DeliveryAction)


@given(actions=st.lists(st.sampled_from(_ACTIONS)))
def test_a_message_comes_nearer_and_never_goes_back(actions: list[DeliveryAction]) -> None:
    state: DeliveryState = "queued"
    for action in actions:
        following = next_state(state, action)
        assert following == TRANSITIONS.get((state, action))
        if following is None:
            continue
        assert _STATES.index(following) > _STATES.index(state)
        assert next_state(following, action) is None  # once is enough
        state = following

    expected = "acknowledged" if "acknowledge" in actions else "delivered" if actions else "queued"
    assert state == expected


@every_row("name", ["build", "#build", "a", "0.9-rc_1", "x" * 63])
def test_a_channel_is_called_with_or_without_its_sign(name: str) -> None:
    assert parse_channel_name(name) == name.removeprefix("#")


@every_row("name", ["", "#", "##a", "Build", "-a", ".a", "a b", "@bob", "a\n", "x" * 64, "é", "inbox:a"])
def test_what_cannot_be_a_channel_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be a channel's name"):
        parse_channel_name(name)


def test_a_text_says_something_and_not_too_much() -> None:
    assert check_text(" so ", 4, "note") == " so "
    with pytest.raises(BadInput, match="the note says nothing"):
        check_text(" \n\t", 4, "note")
    with pytest.raises(BadInput, match="the note has 5 characters, and 4 are allowed"):
        check_text("12345", 4, "note")
