"""Turns from what hooks tell: each once, with what was said, in whatever portions it is heard."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from scrubjay.fleet.memories import TEXT_MAX, check_turn
from scrubjay.fleet.turns import (
    ASKED_MAX,
    CUT,
    Captured,
    ClockRead,
    Heard,
    Underway,
    decode_underway,
    encode_underway,
    finish,
    hear,
    read_heard,
)

_SECOND = 1_000_000


def _told(*events: tuple[str, ...], source: str = "claude", apart_us: int = 5 * _SECOND) -> list[Heard]:
    """Events as a tape has them: a name, a turn's id, and what is said or the tool."""
    found: list[Heard] = []
    for number, (event, turn, *rest) in enumerate(events):
        said = rest[0] if rest else ""
        told: dict[str, object] = {"event": event, "source": source, "turn": turn, "seq": number + 1}
        told |= {"UserPromptSubmit": {"prompt": said}, "Stop": {"response": said}}.get(event, {"tool": said})
        heard = read_heard(1000 * number, 1000 * number + 900, apart_us * number, told)
        assert heard is not None
        found.append(heard)
    return found


def _captured(
    events: Iterable[Heard | ClockRead], state: Underway | None = None, *, ended: bool = False
) -> list[Captured]:
    state, found = state or Underway(), list[Captured]()
    for heard in events:
        state, turns = hear(state, heard)
        found += turns
    return found + (finish(state, 1 << 40) if ended else [])


def _said(captured: Iterable[Captured]) -> list[tuple[str, str]]:
    return [(each.turn.prompt, each.turn.response) for each in captured]


def test_a_prompt_and_its_answer_are_a_turn_at_the_instant_of_its_end() -> None:
    events = _told(
        ("UserPromptSubmit", "t1", "hello"),
        ("PreToolUse", "t1", "Bash"),
        ("PostToolUse", "t1", "Bash"),
        ("PreToolUse", "t1", "Read"),
        ("Stop", "t1", "Good day."),
        ("UserPromptSubmit", "t2", "and now?"),
        ("Stop", "t2", "Nothing."),
    )

    first, second = _captured(events)

    assert (first.turn.prompt, first.turn.response, first.turn.tools) == ("hello", "Good day.", ("Bash", "Read"))
    assert first.begin_offset == 0
    assert (first.at, first.offset, first.end) == (20 * _SECOND, 4000, 4900)
    assert (second.turn.prompt, second.turn.response, second.turn.tools) == ("and now?", "Nothing.", ())


def test_when_a_turn_was_is_said_by_the_clocks_on_the_tape() -> None:
    prompt, stop = _told(("UserPromptSubmit", "t1", "hello"), ("Stop", "t1", "Good day."))

    without = _captured([prompt, stop])[0]
    (jumped,) = _captured([ClockRead(0, 1_000), prompt, ClockRead(1, 3 * _SECOND + 1), stop])

    assert (without.begin_wall_us, without.wall_us) == (None, None)
    assert (jumped.begin_wall_us, jumped.wall_us) == (1_000, 8 * _SECOND)


def test_the_model_is_the_one_that_is_told_with_the_turn() -> None:
    told = {"event": "UserPromptSubmit", "source": "codex", "prompt": "hello", "turn": "t1", "model": "m-1"}
    prompt = read_heard(0, 10, 0, told)
    stop = read_heard(10, 20, 1, {"event": "Stop", "source": "codex", "response": "yes", "turn": "t1"})
    assert prompt is not None
    assert stop is not None

    (turn,) = _captured([prompt, stop])

    assert turn.turn.model == "m-1"


def test_a_prompt_that_nothing_answered_is_a_turn_without_a_response_when_the_next_one_comes() -> None:
    events = _told(("UserPromptSubmit", "t1", "long"), ("UserPromptSubmit", "t2", "short"), ("Stop", "t2", "Yes."))

    assert _said(_captured(events[:1])) == []
    assert _said(_captured(events)) == [("long", ""), ("short", "Yes.")]


def test_a_prompt_that_nothing_answered_is_one_when_the_pod_has_ended() -> None:
    events = _told(("UserPromptSubmit", "t1", "long"), ("PreToolUse", "t1", "Bash"))

    (turn,) = _captured(events, ended=True)

    assert (turn.turn.prompt, turn.turn.response, turn.turn.tools) == ("long", "", ("Bash",))
    assert (turn.at, turn.offset) == (0, 0)
    assert _captured(_told(("UserPromptSubmit", "t1", "a"), ("Stop", "t1", "b")), ended=True)[1:] == []


def test_an_interruption_that_is_told_ends_the_turn() -> None:
    events = _told(
        ("UserPromptSubmit", "t1", "long"),
        ("Interrupt", "t1"),
        ("UserPromptSubmit", "t2", "go on"),
        ("Stop", "t2", "Done."),
        source="codex",
    )

    assert _said(_captured(events[:2])) == [("long", "")]
    assert _said(_captured(events)) == [("long", ""), ("go on", "Done.")]
    failed = _told(("UserPromptSubmit", "t1", "long"), ("StopFailure", "t1"))
    assert _said(_captured(failed)) == [("long", "")]


def test_what_codex_is_told_meanwhile_is_in_the_same_turn() -> None:
    events = _told(
        ("UserPromptSubmit", "t1", "first"),
        ("UserPromptSubmit", "t1", "second"),
        ("Stop", "t1", "Both."),
        source="codex",
    )

    assert _said(_captured(events, ended=True)) == [("first\n\nsecond", "Both.")]


def test_what_claude_is_told_meanwhile_is_in_the_same_turn_if_a_tool_is_used_after_it() -> None:
    events = _told(
        ("UserPromptSubmit", "t1", "first"),
        ("PreToolUse", "t1", "Bash"),
        ("UserPromptSubmit", "t1", "second"),
        ("PostToolUse", "t1", "Bash"),
        ("Stop", "t1", "Both."),
    )

    assert _said(_captured(events, ended=True)) == [("first\n\nsecond", "Both.")]


def test_what_claude_is_told_meanwhile_is_otherwise_the_next_turn_all_together() -> None:
    events = _told(
        ("UserPromptSubmit", "t1", "first"),
        ("UserPromptSubmit", "t1", "second"),
        ("UserPromptSubmit", "t1", "third"),
        ("Stop", "t1", "One."),
        ("Stop", "t2", "Two."),
    )

    assert _said(_captured(events, ended=True)) == [("first", "One."), ("second\n\nthird", "Two.")]


def test_what_claude_was_told_before_it_was_interrupted_is_answered_by_the_next() -> None:
    events = _told(("UserPromptSubmit", "t1", "slow"), ("UserPromptSubmit", "t1", "quick"), ("Stop", "t2", "Quick."))

    assert _said(_captured(events, ended=True)) == [("slow", ""), ("quick", "Quick.")]


def test_what_was_taken_back_before_it_was_answered_does_not_put_off_all_that_follows() -> None:
    events = _told(
        ("UserPromptSubmit", "t1", "first"),
        ("UserPromptSubmit", "t1", "taken back"),
        ("Stop", "t1", "One."),
        ("UserPromptSubmit", "t2", "other"),
        ("Stop", "t2", "Two."),
        ("UserPromptSubmit", "t3", "last"),
        ("Stop", "t3", "Three."),
    )

    assert _said(_captured(events)) == [("first", "One."), ("taken back\n\nother", "Two."), ("last", "Three.")]


def test_a_second_answer_to_a_prompt_is_a_turn_without_one_and_the_same_answer_is_none() -> None:
    events = _told(
        ("UserPromptSubmit", "t1", "hello"),
        ("Stop", "t1", "Good day."),
        ("Stop", "t1", "Good day."),
        ("Stop", "t1", "It went on by itself."),
    )

    assert _said(_captured(events, ended=True)) == [("hello", "Good day."), ("", "It went on by itself.")]


def test_an_agent_that_wakes_by_itself_is_heard() -> None:
    events = _told(
        ("UserPromptSubmit", "t1", "hello"), ("Stop", "t1", "Good day."), ("Stop", "t2", "The build is red.")
    )

    woken = _captured(events)[1]

    assert (woken.turn.prompt, woken.turn.response) == ("", "The build is red.")
    assert woken.begin_offset == 1900


def test_a_hook_that_is_there_twice_makes_no_turn_twice() -> None:
    once = [("UserPromptSubmit", "t1", "go on"), ("Stop", "t1", "Yes."), ("UserPromptSubmit", "t2", "go on")]
    once += [("Stop", "t2", "Yes.")]

    for turns in (once, [(event, "", said) for event, _, said in once]):
        twice = [event for event in turns for _ in range(2)]
        slowly = [
            Heard(heard.offset, heard.end, number // 2 * 5 * _SECOND + number % 2, *_rest(heard))
            for number, heard in enumerate(_told(*twice))
        ]
        assert _said(_captured(slowly, ended=True)) == [("go on", "Yes."), ("go on", "Yes.")]


def _rest(heard: Heard) -> tuple[str, str, str, str]:
    return heard.event, heard.source, heard.turn, heard.said


def test_agents_that_tell_no_ids_are_heard_too() -> None:
    events = _told(
        *(("UserPromptSubmit", "", "one"), ("PreToolUse", "", "Bash"), ("Stop", "", "1")),
        *(("UserPromptSubmit", "", "two"), ("UserPromptSubmit", "", "three"), ("Stop", "", "3")),
        source="other",
    )

    assert _said(_captured(events)) == [("one", "1"), ("two", ""), ("three", "3")]


def test_what_says_nothing_of_turns_is_not_heard() -> None:
    for told in (
        {},
        {"event": "Stop"},
        {"event": "terminal.foreground", "source": "claude"},
        {"event": "SubagentStop", "source": "claude", "response": "mine"},
        {"event": 7, "source": "claude"},
    ):
        assert read_heard(0, 10, 0, told) is None
    silent = [read_heard(0, 1, 0, {"event": event, "source": "a"}) for event in ("UserPromptSubmit", "Stop")]
    assert _captured([heard for heard in silent if heard is not None], ended=True) == []


def test_however_much_is_said_a_turn_fits_into_a_memory() -> None:
    long = "x" * (TEXT_MAX - 10)
    events = _told(*(("UserPromptSubmit", "t1", f"{number} {long}") for number in range(ASKED_MAX * 2)), source="codex")
    state = Underway()
    for heard in events:
        state, _ = hear(state, heard)
    assert len(state.asked) == ASKED_MAX

    (turn,) = finish(state, 0)

    assert turn.turn.prompt.endswith(CUT)
    assert check_turn(turn.turn)
    half = read_heard(0, 1, 0, {"event": "UserPromptSubmit", "source": "a", "prompt": "a\ud800b"})
    assert half is not None
    assert check_turn(_captured([half], ended=True)[0].turn).prompt == "a?b"


_EVENT = st.tuples(
    st.sampled_from(["UserPromptSubmit", "Stop", "PreToolUse", "PostToolUse", "StopFailure", "Interrupt"]),
    st.sampled_from(["", "t1", "t2", "t3"]),
    st.sampled_from(["", "a", "b", "c", "d"]),
)


@given(
    st.lists(_EVENT, max_size=30),
    st.sets(st.integers(0, 30)),
    st.sampled_from(["claude", "codex"]),
    st.sampled_from([1000, 5 * _SECOND]),
)
def test_in_whatever_portions_it_is_heard_the_turns_are_the_same_and_none_is_there_twice(
    events: list[tuple[str, str, str]], cuts: set[int], source: str, apart_us: int
) -> None:
    heard = _told(*events, source=source, apart_us=apart_us)

    state, found = Underway(), list[Captured]()
    for number, each in enumerate(heard):
        if number in cuts:
            state = decode_underway(json.loads(json.dumps(encode_underway(state))))
        state, turns = hear(state, each)
        found += turns
    found += finish(state, 1 << 40)

    assert found == _captured(heard, ended=True)
    assert len({each.offset for each in found}) == len(found)
    for each in found:
        assert check_turn(each.turn)
        assert each.begin_offset <= each.offset
    prompts = [prompt for each in found for prompt in each.turn.prompt.split("\n\n") if prompt]
    told = [each.said for each in heard if each.event == "UserPromptSubmit" and each.said]
    answers = [each.turn.response for each in found if each.turn.response]
    assert len(answers) <= len([each for each in heard if each.event == "Stop" and each.said])
    if apart_us > _SECOND:  # else they may be taken for those of two hooks
        assert sorted(prompts) == sorted(told)


def test_what_is_kept_by_another_version_is_begun_anew() -> None:
    assert decode_underway(None) == Underway()
    assert decode_underway({"asked": [{"unknown": 1}]}) == Underway()
    assert decode_underway({"more": 1, "turn": "t1"}) == Underway(turn="t1")
