"""Signals that agree, contradict each other, come late or not at all."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest

from scrubjay.agents.status_rules import generic_rules
from scrubjay.screen.engine import Effect
from scrubjay.screen.glance import Glance
from scrubjay.status.claims import PERMISSION, QUESTION
from scrubjay.status.detector import Detector, Verdict
from scrubjay.status.rules import Rules, parse_rules
from tests.support.tables import every_row

# ruff: noqa: RUF001

S = 1_000_000
_DIALOG = ("Do you want to run this?", "❯ 1. Yes", "  2. No", "enter to confirm · esc to cancel")


class Stage:
    """A detector, and what happens before its eyes."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.detector = Detector(rules if rules is not None else generic_rules())
        self.at = 0

    def wait(self, seconds: float) -> Stage:
        self.at += int(seconds * S)
        return self

    def says(self, state: str, kind: str = "") -> Stage:
        osc = f"7501;state={state}" + (f":kind={kind}" if kind else "")
        self.detector.heard(self.at, self.at, Effect("unknown", osc.encode()))
        return self

    def is_titled(self, title: str) -> Stage:
        self.detector.heard(self.at, self.at, Effect("title", title.encode()))
        return self

    def progresses(self, state: int) -> Stage:
        self.detector.heard(self.at, self.at, Effect("progress", state=state))
        return self

    def shows(self, *rows: str, cursor: int = 0, pastes: bool = False) -> Stage:
        self.detector.printed(self.at)
        self.detector.looked(self.at, self.at, Glance(rows, cursor, pastes=pastes))
        return self

    def types(self, text: str) -> Stage:
        self.detector.typed(self.at, self.at, text.encode())
        return self

    def reports(self, event: str, **fields: str) -> Stage:
        self.detector.hook(self.at, self.at, {"event": event, **fields})
        return self

    def has_terminal(self, does: str) -> Stage:
        self.detector.has_terminal(self.at, self.at, does, "make")
        return self

    @property
    def verdict(self) -> Verdict:
        return self.detector.verdict(self.at)


def test_what_a_program_says_of_itself_counts_most() -> None:
    stage = Stage().says("working").shows(*_DIALOG)

    assert stage.verdict.activity == "executing"
    assert [claim.source for claim in stage.verdict.outvoted] == ["screen"]


def test_a_wait_says_for_what_and_who_says_so() -> None:
    verdict = Stage().says("blocked", "question").verdict

    assert (verdict.activity, verdict.waiting_for) == ("waiting", QUESTION)
    assert verdict.agreeing[0].source == "program"
    assert verdict.confidence > 0.9


def test_a_signal_that_leaves_two_states_open_lets_the_next_choose() -> None:
    busy = Stage().progresses(3)
    assert busy.verdict.activity == "executing"

    assert busy.wait(1).shows(*_DIALOG).verdict.activity == "waiting"
    assert busy.verdict.waiting_for == PERMISSION
    assert busy.wait(1).progresses(0).shows("> ").wait(2).verdict.activity == "idle"


def test_a_spinner_in_the_title_is_work_and_its_end_is_not() -> None:
    stage = Stage().is_titled("⠋ project")
    assert stage.verdict.activity == "executing"

    assert stage.wait(1).is_titled("project").wait(2).verdict.activity == "idle"


def test_a_title_that_never_span_says_nothing() -> None:
    stage = Stage().is_titled("vim README.md").shows("hello there")

    assert stage.verdict.activity == "executing"
    assert all(claim.source != "title" for claim in stage.verdict.agreeing)


def test_a_dialog_above_the_prompt_is_only_text() -> None:
    stage = Stage().shows(*_DIALOG, "That was an example.", "", "> ", "? for shortcuts", "model · branch").wait(5)

    assert stage.verdict.activity == "idle"


def test_what_moves_is_work_and_what_is_quoted_is_not() -> None:
    moving, quoted = Stage(), Stage()
    for second in range(8):
        moving.wait(1).shows("text", f"⠋ Thinking... ({second}s, esc to cancel)", "> ")
        quoted.wait(1).shows("text", "⠋ Thinking... (3s, esc to cancel)", "> ")

    assert moving.verdict.activity == "executing"
    assert quoted.verdict.activity == "idle"


def test_a_line_that_stands_still_for_long_is_no_work_any_more() -> None:
    stage = Stage()
    for second in range(3):
        stage.wait(1).shows("text", f"⠋ Thinking... ({second}s)")
    assert stage.verdict.activity == "executing"

    due = stage.detector.change_due(stage.at)
    assert due is not None
    while due is not None:
        stage.at = due
        due = stage.detector.change_due(stage.at)
    assert stage.verdict.activity == "idle"


def test_a_line_that_is_submitted_is_work_before_anything_shows_it() -> None:
    stage = Stage().shows("> hello").wait(5).types("hello\r")
    assert stage.verdict.activity == "executing"

    assert stage.wait(6).verdict.activity == "idle", "nothing came of it"


def test_a_line_that_tells_it_to_leave_is_no_work() -> None:
    assert Stage().shows("> ").wait(5).types("/exit\r").shows("saving your session").verdict.activity == "idle"


def test_keys_and_what_a_terminal_answers_are_no_lines() -> None:
    for keys in ("\x1b[A\r", "\x1bP>|term\x1b\\", "\x1b[?62;22c", "abc"):
        stage = Stage().shows("> ").wait(5).types(keys)
        assert stage.verdict.activity == "idle", keys


def test_a_program_that_reads_lines_is_at_work_when_it_does_not() -> None:
    stage = Stage().shows("prompt> ", pastes=True)
    stage.wait(2).shows("prompt> hello", pastes=False)
    assert stage.wait(10).verdict.activity == "executing", "silent, but not reading"

    assert stage.shows("prompt> hello", "prompt> ", pastes=True).wait(3).verdict.activity == "idle"


def test_a_program_that_draws_and_always_brackets_pastes_is_not_told_by_that() -> None:
    stage = Stage().shows("> ", pastes=True).wait(1).shows("> ", pastes=False).wait(1)
    for second in range(4):
        stage.wait(1).shows("answer", f"⠋ Working ({second}s, esc to interrupt)", "> ", pastes=True)

    assert stage.verdict.activity == "executing"


_HOOKED = parse_rules(
    {
        "hooks": {
            "Prompt": {"state": "executing"},
            "Ask": {"state": "waiting", "waiting_for": "permission"},
            "Ask:Question": {"state": "waiting", "waiting_for": "question"},
            "Stop": {"state": "idle"},
            "Broke": {"state": "error"},
        },
        "screen": [
            {"name": "prompt", "state": "idle", "foot": ["^> $|^>$"]},
            {"name": "busy", "state": "executing", "foot": ["esc to stop"]},
        ],
    }
)


def test_a_hook_is_believed() -> None:
    stage = Stage(_HOOKED).shows("> ").wait(1).reports("Ask", tool="Shell")
    assert (stage.verdict.activity, stage.verdict.waiting_for) == ("waiting", PERMISSION)

    assert stage.reports("Ask", tool="Question").verdict.waiting_for == QUESTION
    assert stage.reports("Broke").verdict.problem == "error"
    assert stage.reports("Unheard-of").verdict.problem == "error"


@pytest.mark.parametrize(
    ("event", "then", "activity"),
    [("Prompt", "> ", "idle"), ("Ask", "esc to stop", "executing")],
    ids=["interrupted", "approved"],
)
def test_what_is_seen_corrects_a_hook_that_is_stuck(event: str, then: str, activity: str) -> None:
    stage = Stage(_HOOKED).reports(event).wait(1).shows(then)
    assert stage.verdict.activity != activity, "it may be about to change"

    due = stage.detector.change_due(stage.at)
    assert due is not None
    stage.at = due
    assert stage.verdict.activity == activity
    assert "hook" in [claim.source for claim in stage.verdict.outvoted]


def test_a_program_that_says_it_works_and_draws_nothing_is_not_believed_against_what_is_seen() -> None:
    stage = Stage(_HOOKED).says("working").shows("> ")
    assert stage.wait(10).verdict.activity == "executing"

    assert stage.wait(15).verdict.activity == "idle"


def test_an_agent_that_says_nothing_at_all_is_told_by_its_output() -> None:
    stage = Stage(Rules())
    for number in range(10):
        stage.wait(0.3).shows(*(f"line {line}" for line in range(number)))
    assert stage.verdict.activity == "executing"
    assert stage.verdict.confidence <= 0.5

    assert stage.wait(3).verdict.activity == "idle"


def test_the_echo_of_keys_is_no_work() -> None:
    stage = Stage(Rules()).shows("> ").wait(5)
    for number in range(1, 10):
        stage.wait(0.1).types("a").shows("> " + "a" * number)

    assert stage.verdict.activity == "idle"


def test_looks_are_few_and_soon() -> None:
    detector = Detector(Rules())
    looks: list[int] = []
    for at in range(0, 2 * S, 1000):  # a thousand writes a second
        detector.printed(at)
        due = detector.look_due()
        assert due is not None
        if due <= at:
            detector.looked(at, 0, Glance(("text",)))
            looks.append(at)

    assert 15 <= len(looks) <= 21
    assert detector.look_due() is None or detector.look_due() == looks[-1] + 100_000


def test_nothing_is_due_when_nothing_happens() -> None:
    stage = Stage().says("idle").shows("> ")
    for _ in range(10):
        due = stage.detector.change_due(stage.at)
        if due is None:
            break
        stage.at = due
        _ = stage.verdict

    assert stage.detector.change_due(stage.at) is None
    assert stage.detector.look_due() is None


def test_another_goes_on_where_one_has_come_to_a_verdict() -> None:
    before = Stage().says("blocked", "permission").shows(*_DIALOG).verdict

    after = Stage()
    after.detector.resume(before)

    assert after.verdict.essence == before.essence
    assert after.wait(1).says("working").verdict.activity == "executing"


@every_row("happens", [Stage.says, Stage.is_titled, Stage.types, Stage.reports])
def test_hostile_text_does_no_harm(happens: Callable[[Stage, str], Stage]) -> None:
    stage = Stage()
    for text in ("", "\x00" * 10_000, "7501;" * 100, "(" * 5000, "\u202e❯ 1. Yes", "=:=:=", "[y/n" * 1000):
        happens(stage, text)
        stage.shows(*[text] * 20)

    assert stage.verdict.activity in ("executing", "waiting", "idle")


def test_a_silent_program_that_reads_nothing_works() -> None:
    stage = Stage().shows("compiling").has_terminal("works").wait(600)

    assert stage.verdict.activity == "executing"
    assert stage.verdict.agreeing[0].why == "make works and reads nothing"


def test_a_program_that_reads_a_line_does_not_work_whatever_it_has_shown_just_now() -> None:
    assert Stage().shows("name?").has_terminal("reads").verdict.activity == "idle"
    assert Stage().shows("Delete it? [y/N]").has_terminal("reads").verdict.activity == "waiting"


def test_a_program_that_draws_is_told_by_what_it_draws() -> None:
    assert Stage().shows("compiling").has_terminal("works").wait(5).has_terminal("draws").verdict.activity == "idle"


def test_nothing_has_begun_on_an_empty_screen() -> None:
    stage = Stage().shows("", "  ").wait(5)
    assert not stage.detector.has_begun

    assert stage.shows("Welcome").detector.has_begun


_ERRORS = """
    [[screen]]
    state = "error"
    body = ['^Error']
    after = '^> .'
"""


def test_an_error_counts_until_another_prompt_follows_it() -> None:
    stage = Stage(parse_rules(tomllib.loads(_ERRORS)))

    stage.shows("> hello", "Error: no such model", "> ").wait(5)
    assert (stage.verdict.activity, stage.verdict.problem) == ("idle", "Error: no such model")

    stage.shows("> hello", "Error: no such model", "> try again", "Hello!", "> ").wait(5)
    assert (stage.verdict.activity, stage.verdict.problem) == ("idle", None)
