"""Runners, worktrees, notices, remembered requests, and any text there is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from scrubjay.errors import NoSuchPod
from scrubjay.ids import PodName, RunnerId
from scrubjay.store.events import append_event, read_events
from scrubjay.store.notices import claim_notice, mute_pod
from scrubjay.store.pods import add_pod, get_pod
from scrubjay.store.requests import KEEP_US, remember, remembered
from scrubjay.store.runners import (
    Runner,
    connect_runner,
    disconnect_runner,
    disconnect_runners,
    get_runner,
    list_runners,
)
from scrubjay.store.status import Status, set_status
from scrubjay.store.worktrees import WorktreeFacts, add_worktree, get_worktree, remove_worktree
from tests.store.catalogs import pod_facts, pod_id
from tests.support.tiers import sized

_R1, _R2 = RunnerId("a" * 26), RunnerId("b" * 26)


def _connect(connection: Connection, runner: RunnerId, wall_us: int, *, version: str = "1") -> bool:
    return connect_runner(connection, runner, name="laptop", host="h", version=version, wall_us=wall_us)


def test_a_runner_is_connected_or_gone_from_its_first_hello_on(connection: Connection) -> None:
    assert _connect(connection, _R1, 10)
    assert not _connect(connection, _R1, 20)
    assert _connect(connection, _R1, 30, version="2")
    assert disconnect_runner(connection, _R1, reason="timeout", wall_us=40)
    assert not disconnect_runner(connection, _R1, reason="timeout", wall_us=50)
    assert not disconnect_runner(connection, _R2, reason="timeout", wall_us=50)
    assert _connect(connection, _R1, 60, version="2")

    assert get_runner(connection, _R1) == Runner(_R1, "laptop", "h", "2", True, None, 60, None)
    assert list_runners(connection, at_us=45) == [Runner(_R1, "laptop", "h", "2", False, "timeout", 40, 60)]
    assert get_runner(connection, _R1, at_us=29) == Runner(_R1, "laptop", "h", "1", True, None, 10, 30)
    assert get_runner(connection, _R1, at_us=9) is None
    assert [event.kind for event in read_events(connection)] == [
        "runner.connected",
        "runner.connected",
        "runner.gone",
        "runner.connected",
    ]


def test_a_server_that_starts_has_no_runner(connection: Connection) -> None:
    for runner in (_R1, _R2):
        _connect(connection, runner, 10)
    disconnect_runner(connection, _R2, reason="timeout", wall_us=20)

    assert disconnect_runners(connection, reason="the server was restarted", wall_us=30) == [_R1]

    assert [(runner.id, runner.connected) for runner in list_runners(connection)] == [(_R1, False), (_R2, False)]


def test_a_worktree_is_there_until_it_is_removed_and_its_name_is_free_again(connection: Connection) -> None:
    facts = WorktreeFacts(_R1, "fix", "/w/fix", "/r", "jay/fix", "abc123", pod_id(1))
    again = WorktreeFacts(_R1, "fix", "/w/fix", "/r")

    assert add_worktree(connection, facts, wall_us=10)
    assert not add_worktree(connection, facts, wall_us=15)
    assert remove_worktree(connection, _R1, "fix", wall_us=20)
    assert not remove_worktree(connection, _R1, "fix", wall_us=25)
    assert add_worktree(connection, again, wall_us=30)

    now = get_worktree(connection, _R1, "fix")
    assert now is not None
    assert now.since_us == 30
    assert get_worktree(connection, _R1, "fix", at_us=25) is None
    found = get_worktree(connection, _R1, "fix", at_us=19)
    assert found == WorktreeFacts(_R1, "fix", "/w/fix", "/r", "jay/fix", "abc123", pod_id(1), 10, 20)
    assert get_worktree(connection, _R2, "fix") is None
    events = read_events(connection)
    assert [(event.kind, event.pod) for event in events] == [
        ("worktree.created", pod_id(1)),
        ("worktree.removed", pod_id(1)),
        ("worktree.created", None),
    ]
    assert events[0].data["branch"] == "jay/fix"


def test_a_pod_nobody_added_has_no_status_and_cannot_be_muted(connection: Connection) -> None:
    with pytest.raises(NoSuchPod):
        set_status(connection, pod_id(1), process="running", wall_us=1)
    with pytest.raises(NoSuchPod):
        mute_pod(connection, pod_id(1), wall_us=1)
    assert read_events(connection) == []


def test_a_notice_is_given_once_within_its_time(connection: Connection) -> None:
    asked = [(0, True), (99, False), (100, True), (150, False), (200, True)]

    assert [claim_notice(connection, "k", wall_us=wall_us, quiet_us=100) for wall_us, _ in asked] == [
        given for _, given in asked
    ]
    assert claim_notice(connection, "other", wall_us=200, quiet_us=100)


def test_a_clock_that_is_set_back_silences_nobody(connection: Connection) -> None:
    assert claim_notice(connection, "k", wall_us=10**15, quiet_us=100)

    assert claim_notice(connection, "k", wall_us=1000, quiet_us=100)
    assert not claim_notice(connection, "k", wall_us=1050, quiet_us=100)


def test_an_answer_is_remembered_for_a_day_for_whoever_asked(connection: Connection) -> None:
    remember(connection, "ann", "k", {"pod": "x"}, wall_us=1000)

    assert remembered(connection, "ann", "k", wall_us=1000) == {"pod": "x"}
    assert remembered(connection, "bob", "k", wall_us=1000) is None
    assert remembered(connection, "ann", "other", wall_us=1000) is None
    assert remembered(connection, "ann", "k", wall_us=1000 + KEEP_US - 1) == {"pod": "x"}
    assert remembered(connection, "ann", "k", wall_us=1000 + KEEP_US) is None  # nobody has asked for anything since

    remember(connection, "ann", "k", {"pod": "y"}, wall_us=1000 + KEEP_US)
    assert remembered(connection, "ann", "k", wall_us=1000 + KEEP_US) == {"pod": "y"}


_any_text = st.text(st.characters(exclude_categories=()) | st.sampled_from("\0\ud800\udcff\udfff\ue000\ue001a0"))


@settings(max_examples=sized(50, 200, 5000), deadline=None)
@given(text=_any_text, key=_any_text)
def test_any_text_comes_back_as_it_was(emptied: Connection, text: str, key: str) -> None:
    given_facts = replace(pod_facts(1), name=PodName(text), argv=(text, key), cwd=text)
    status = Status("running", reason=text, evidence={key: [text, {"a": key}]})

    with emptied.begin() as transaction:
        add_pod(emptied, given_facts, status, wall_us=1)
        append_event(emptied, "test.happened", wall_us=1, data={key: text})
        found = get_pod(emptied, pod_id(1))
        events = read_events(emptied)
        transaction.rollback()

    assert found is not None
    assert found[0] == given_facts
    assert (found[1].reason, found[1].evidence) == (text, {key: [text, {"a": key}]})
    assert events[1].data == {key: text}
    assert events[0].data["argv"] == [text, key]
