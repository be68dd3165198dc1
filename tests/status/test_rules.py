"""The table [status] of a manifest."""

from __future__ import annotations

import tomllib

import pytest

from scrubjay.status.claims import EXECUTING, IDLE, PERMISSION, WAITING
from scrubjay.status.rules import BadRules, parse_rules
from tests.support.tables import every_row


def _parse(text: str):
    return parse_rules(tomllib.loads(text))


def test_a_table_is_read() -> None:
    rules = _parse("""
        order = ["screen", "title"]
        leave = ['^/exit$']
        [[title]]
        pattern = '^busy'
        state = "executing"
        [progress]
        busy = { state = ["executing", "waiting"] }
        [hooks]
        Stop = { state = "idle" }
        Failed = { state = "error" }
        "Ask:Shell" = { state = "waiting", waiting_for = "permission" }
        [[screen]]
        name = "dialog"
        state = "waiting"
        waiting_for = "permission"
        foot = ['enter']
        moves = 'x'
    """)

    assert rules.order[:2] == ("screen", "title")
    assert set(rules.order) == {
        "leaving", "program", "title", "progress", "paste", "hook", "typed", "screen", "process", "output"
    }  # fmt: skip
    assert rules.title[0].meaning.states == EXECUTING
    assert rules.progress["busy"].states == EXECUTING | WAITING
    assert rules.hooks["Ask:Shell"].waiting_for == PERMISSION
    assert (rules.hooks["Failed"].states, rules.hooks["Failed"].problem) == (IDLE, "error")
    assert rules.screen[0].moves is not None


@every_row(
    ("text", "where", "why"),
    [
        ("colour = 1", "status.colour", "is not known"),
        ('order = "title"', "status.order", "is not a list"),
        ('order = ["smell"]', "status.order", "'smell' is none of"),
        ("title = 3", "status.title", "is not a list of tables"),
        ("[[title]]\nstate = 'idle'", "status.title[0].pattern", "is not a pattern"),
        ("[[title]]\npattern = '('\nstate = 'idle'", "status.title[0].pattern", "is not a regular expression"),
        ("[[title]]\npattern = 'a'\nstate = 'asleep'", "status.title[0].state", "'asleep' is not one or two of"),
        ("[[title]]\npattern = 'a'", "status.title[0].state", "None is not one or two of"),
        ("[[screen]]\nstate = 'idle'", "status.screen[0]", "would match any screen"),
        ("[[screen]]\nstate = 'idle'\nfoot = 'x'", "status.screen[0].foot", "is not a list of patterns"),
        ("[[screen]]\nstate = 'idle'\nfoot = ['x']\ntrust = 2", "status.screen[0].trust", "between 0 and 1"),
        ("[[screen]]\nstate = 'idle'\nfoot = ['x']\nwaiting_for = 'question'", "status.screen[0].waiting_for", "of a"),
        ("[hooks]\nStop = 'idle'", "status.hooks.Stop", "is not like"),
        ("[progress]\nmuch = { state = 'idle' }", "status.progress.much", "is not known"),
    ],
)
def test_what_is_wrong_is_named(text: str, where: str, why: str) -> None:
    with pytest.raises(BadRules) as error:
        _parse(text)

    assert error.value.where == where
    assert why in error.value.why


def test_rules_of_an_agent_come_before_those_for_any() -> None:
    own = _parse("[[screen]]\nname = 'own'\nstate = 'idle'\nfoot = ['x']")
    generic = _parse("[[screen]]\nname = 'any'\nstate = 'idle'\nfoot = ['x']\n[[title]]\npattern='a'\nstate='idle'")

    both = own.before(generic)

    assert [rule.name for rule in both.screen] == ["own", "any"]
    assert both.title == generic.title
