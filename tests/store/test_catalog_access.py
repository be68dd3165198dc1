"""Tokens, logins and browsers in the catalog."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from scrubjay.ids import RunnerId
from scrubjay.store.events import read_events
from scrubjay.store.tokens import (
    BrowserRow,
    LoginRow,
    TokenRow,
    add_browser,
    add_login,
    add_token,
    bind_token,
    end_browser,
    find_browser,
    find_token,
    list_tokens,
    needs_touch,
    revoke_token,
    revoke_tokens_of,
    runner_of_token,
    token_of_runner,
    touch_token,
    use_login,
)
from tests.store.catalogs import pod_id

_MINUTE_US = 60_000_000
_DIGEST = bytes(range(32))


def _add(connection: Connection, name: str, *, pod: int | None = None, wall_us: int = 10) -> TokenRow:
    of = None if pod is None else pod_id(pod)
    role = "operator" if pod is None else "pod"
    return add_token(
        connection, id=name, digest=_DIGEST, role=role, name=name, pod=of, expires_us=None, wall_us=wall_us
    )


def test_a_token_is_found_with_its_digest(connection: Connection) -> None:
    added = _add(connection, "t1")

    assert find_token(connection, "t1") == (added, _DIGEST)
    assert added == TokenRow("t1", "operator", "t1", None, 10, None, None, None)
    assert find_token(connection, "t2") is None
    assert find_token(connection, "t1\0\udcff") is None


def test_two_tokens_with_one_id_cannot_be(connection: Connection) -> None:
    _add(connection, "t1")

    with pytest.raises(IntegrityError):
        _add(connection, "t1")


def test_a_revoked_token_is_found_as_revoked_and_no_longer_listed(connection: Connection) -> None:
    first, second = _add(connection, "t1"), _add(connection, "t2", wall_us=20)

    assert revoke_token(connection, "t1", wall_us=30)
    assert not revoke_token(connection, "t1", wall_us=40)
    assert not revoke_token(connection, "unknown", wall_us=40)

    found = find_token(connection, "t1")
    assert found is not None
    assert found[0].revoked_us == 30
    assert list_tokens(connection) == [second]
    assert list_tokens(connection, at_us=29) == [first, second]
    assert list_tokens(connection, at_us=19) == [first]
    assert list_tokens(connection, at_us=9) == []


def test_the_tokens_of_a_pod_are_revoked_together(connection: Connection) -> None:
    for name, pod in (("t1", 1), ("t2", 1), ("t3", 2), ("t4", None)):
        _add(connection, name, pod=pod)
    revoke_token(connection, "t2", wall_us=20)

    assert revoke_tokens_of(connection, pod_id(1), wall_us=30) == ["t1"]

    assert [token.id for token in list_tokens(connection)] == ["t3", "t4"]
    revoked = [event for event in read_events(connection) if event.kind == "token.revoked"]
    assert [(event.pod, event.data["token"]) for event in revoked] == [(pod_id(1), "t2"), (pod_id(1), "t1")]


def test_a_token_is_of_one_runner_and_a_runner_has_its_token_until_that_ends(connection: Connection) -> None:
    box = RunnerId("r" * 26)
    _add(connection, "t1")
    add_token(connection, id="t2", digest=_DIGEST, role="runner", name="n", pod=None, expires_us=50, wall_us=20)
    assert runner_of_token(connection, "t1") is None
    assert token_of_runner(connection, box, wall_us=20) is None

    bind_token(connection, "t1", box, wall_us=30)
    with pytest.raises(IntegrityError), connection.begin_nested():
        bind_token(connection, "t1", RunnerId("q" * 26), wall_us=30)
    assert (runner_of_token(connection, "t1"), token_of_runner(connection, box, wall_us=30)) == (box, "t1")

    revoke_token(connection, "t1", wall_us=40)
    assert (runner_of_token(connection, "t1"), token_of_runner(connection, box, wall_us=40)) == (box, None)
    bind_token(connection, "t2", box, wall_us=40)
    assert [token_of_runner(connection, box, wall_us=wall_us) for wall_us in (49, 50)] == ["t2", None]


def test_use_of_a_token_is_noted_once_a_minute_and_is_no_event(connection: Connection) -> None:
    _add(connection, "t1")
    used: list[int | None] = []

    for wall_us in (100, 100 + _MINUTE_US - 1, 100 + _MINUTE_US):
        before = find_token(connection, "t1")
        assert before is not None
        touch_token(connection, "t1", wall_us=wall_us)
        after = find_token(connection, "t1")
        assert after is not None
        assert needs_touch(before[0], wall_us=wall_us) == (before != after)
        used.append(after[0].used_us)

    assert used == [100, 100, 100 + _MINUTE_US]
    assert [token.used_us for token in list_tokens(connection, at_us=200)] == [None]
    assert len(read_events(connection)) == 1


def test_a_login_can_be_used_once(connection: Connection) -> None:
    add_login(connection, digest=_DIGEST, role="operator", name="ann", expires_us=100, wall_us=10)

    assert use_login(connection, b"other", wall_us=20) is None
    assert use_login(connection, _DIGEST, wall_us=20) == LoginRow("operator", "ann")
    assert use_login(connection, _DIGEST, wall_us=20) is None


def test_a_login_cannot_be_used_when_it_has_expired(connection: Connection) -> None:
    add_login(connection, digest=_DIGEST, role="viewer", name="ann", expires_us=100, wall_us=10)

    assert use_login(connection, _DIGEST, wall_us=100) is None
    assert use_login(connection, _DIGEST, wall_us=99) == LoginRow("viewer", "ann")


def test_a_clock_that_was_once_ahead_does_not_lock_anybody_out(connection: Connection) -> None:
    _add(connection, "t1", wall_us=10**15)

    add_login(connection, digest=_DIGEST, role="operator", name="ann", expires_us=100, wall_us=10)

    assert use_login(connection, _DIGEST, wall_us=20) == LoginRow("operator", "ann")


def test_browsers_are_let_in_and_put_out(connection: Connection) -> None:
    one, other = (
        add_browser(connection, id=known_as, digest=_DIGEST, role="viewer", name=name, expires_us=99, wall_us=wall_us)
        for known_as, name, wall_us in (("b1", "ann", 10), ("b2", "bob", 20))
    )

    assert one == BrowserRow("b1", "viewer", "ann", 10, 99, None)
    assert find_browser(connection, "b1") == (one, _DIGEST)
    assert find_browser(connection, "b9") is None
    assert end_browser(connection, "b1", wall_us=50)
    assert not end_browser(connection, "b1", wall_us=60)
    found = find_browser(connection, "b1")
    assert found is not None
    assert found[0].ended_us == 50
    assert find_browser(connection, "b2") == (other, _DIGEST)


def test_no_event_holds_a_digest(connection: Connection) -> None:
    digest = b"digest-that-must-not-appear"
    add_token(connection, id="t", digest=digest, role="agent", name="n", pod=pod_id(0), expires_us=5, wall_us=1)
    add_login(connection, digest=digest, role="operator", name="n", expires_us=100, wall_us=1)
    use_login(connection, digest, wall_us=2)
    add_browser(connection, id="b", digest=digest, role="operator", name="n", expires_us=100, wall_us=3)
    end_browser(connection, "b", wall_us=4)
    revoke_token(connection, "t", wall_us=5)

    events = read_events(connection)

    assert [event.kind for event in events] == [
        "token.created",
        "login.created",
        "login.used",
        "browser.created",
        "browser.ended",
        "token.revoked",
    ]
    told = json.dumps([event.data for event in events])
    assert "digest" not in told
    assert digest.hex() not in told
