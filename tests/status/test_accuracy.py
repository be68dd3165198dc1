"""The statuses of recordings of real agents, against what is known to be true of them."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from benchmarks.status_accuracy import (
    FALSE_WAIT_MAX_S,
    GENERIC_RIGHT_MIN,
    RIGHT_MIN,
    by_generic_rules,
    by_manifest,
    score_all,
)
from benchmarks.status_score import Interval, Score, score
from scrubjay.replay.workers import Workers
from tests.support.corpus import recordings, unseen_recordings
from tests.support.tiers import sized

_ONE_OF = sized(6, 1, 1)  # recordings; those no rule has seen are fewer, so half of them are scored
_WAITS_MIN = 40  # in all of them


@pytest.fixture(scope="module")
def workers() -> Generator[Workers]:
    with Workers() as workers:
        yield workers


def test_the_status_of_real_agents_is_right(workers: Workers) -> None:
    total = Score()
    for agent, found in score_all(by_manifest, workers, recordings(one_of=_ONE_OF)).items():
        assert found.right() >= 0.96, f"{agent}: {found.steps}"
        total.add(found)

    assert total.right() >= RIGHT_MIN
    assert total.waits >= _WAITS_MIN // _ONE_OF
    assert not total.missed
    assert total.longest_false_wait_s <= FALSE_WAIT_MAX_S


def test_the_status_of_agents_without_a_manifest_is_nearly_as_right(workers: Workers) -> None:
    for agent, found in score_all(by_generic_rules, workers, recordings(one_of=_ONE_OF)).items():
        assert found.right() >= GENERIC_RIGHT_MIN, f"{agent}: {found.steps}"
        assert not found.missed
        assert found.longest_false_wait_s <= FALSE_WAIT_MAX_S


def test_the_status_of_agents_is_right_in_situations_that_no_rule_was_made_with(workers: Workers) -> None:
    scores = score_all(by_manifest, workers, unseen_recordings(one_of=sized(2, 1, 1)))
    total = Score()
    for found in scores.values():
        total.add(found)

    assert total.right() >= RIGHT_MIN
    assert total.longest_false_wait_s <= FALSE_WAIT_MAX_S
    # Two that have no manifest.
    assert min(scores["pi"].right(), scores["vibe"].right()) >= 0.95
    # There the agent itself shows its dialog only 1.1 s after it has to ask.
    assert [name for name, _ in total.missed] == ["opencode-turn-w200"]


_TRUTH = [
    {"t0": 0.0, "t1": 2.0, "state": "starting"},
    {"t0": 2.0, "t1": 6.0, "state": "executing"},
    {"t0": 6.0, "t1": 10.0, "state": "waiting"},
    {"t0": 10.0, "t1": 14.0, "state": "idle"},
]


def test_what_is_right_scores_all() -> None:
    told = [Interval(0, 2.2, "idle"), Interval(2.2, 6.3, "executing"), Interval(6.3, 10.2, "waiting")]
    found = score("x", _TRUTH, [*told, Interval(10.2, 14, "idle")])

    assert (found.right(), found.waits, found.missed, found.longest_false_wait_s) == (1.0, 1, [], 0.0)


def test_what_is_late_wrong_or_missed_is_seen() -> None:
    late = score("x", _TRUTH, [Interval(0, 7.5, "executing"), Interval(7.5, 14, "waiting")])

    assert late.missed == [("x", 6.0)]
    assert late.longest_false_wait_s == pytest.approx(3.5, abs=0.1)
    assert late.right("executing") == 1.0
    assert late.right("idle") == 0.0
    assert 0.5 < late.right("waiting") < 0.8
