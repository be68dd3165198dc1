"""Memories: what can be remembered, and what is the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import BadInput
from scrubjay.fleet.memories import TEXT_MAX, TOOLS_MAX, WORD_MAX, Turn, check_turn, input_hash, says_the_same
from tests.support.tables import every_row

_turns = st.builds(Turn, st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))


@every_row(
    ("turn", "complaint"),
    [
        (Turn(), "the memory says nothing"),
        (Turn(prompt="  \n"), "the memory says nothing"),
        (Turn(prompt="x" * (TEXT_MAX + 1)), f"the prompt has {TEXT_MAX + 1} characters, and {TEXT_MAX} are allowed"),
        (Turn(thought="x" * (TEXT_MAX + 1)), f"the thought has {TEXT_MAX + 1} characters, and {TEXT_MAX} are allowed"),
        (Turn("hi", response="\ud800"), "the response has half of a character in it"),
        (
            Turn("hi", model="m" * (WORD_MAX + 1)),
            f"the model has {WORD_MAX + 1} characters, and {WORD_MAX} are allowed",
        ),
        (Turn("hi", tools=("",)), "the tool says nothing"),
        (Turn("hi", tools=("grep",) * (TOOLS_MAX + 1)), f"{TOOLS_MAX + 1} tools are more than {TOOLS_MAX}"),
        (Turn("hi", tokens=-1), "-1 is no number of tokens"),
    ],
)
def test_what_cannot_be_remembered_is_refused_with_what_is_wrong(turn: Turn, complaint: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_turn(turn)

    assert str(caught.value) == complaint
    assert caught.value.hint


def test_a_turn_of_the_greatest_size_is_taken() -> None:
    full = "x" * TEXT_MAX
    turn = Turn(full, full, full, "m" * WORD_MAX, ("t",) * TOOLS_MAX, 0)

    assert check_turn(turn) is turn


@given(st.lists(_turns, max_size=4), st.lists(_turns, max_size=4))
def test_two_inputs_have_the_same_hash_only_if_they_are_the_same(one: list[Turn], other: list[Turn]) -> None:
    texts = [[(turn.prompt, turn.thought, turn.response) for turn in turns] for turns in (one, other)]

    assert (input_hash(one) == input_hash(other)) == (texts[0] == texts[1])


def test_a_turn_is_known_by_its_prompt_or_its_response_whatever_the_blanks() -> None:
    turn = Turn("Fix  the\nbug", response="Done.")

    assert says_the_same(turn, [Turn("other"), Turn("Fix the bug")])
    assert says_the_same(turn, [Turn("paraphrased", response=" Done. ")])
    assert not says_the_same(turn, [Turn("Fix the bugs"), Turn(thought="Done.")])
    assert not says_the_same(Turn("", response=""), [Turn("", "only a thought")])
