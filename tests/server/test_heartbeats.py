"""Who was heard of, and for how long that counts; R14: whatever the clock on the wall does."""

from __future__ import annotations

import pytest

from scrubjay.fleet.access import Principal
from scrubjay.fleet.sessions import pod_holder
from scrubjay.ids import PodId, WireSessionId
from scrubjay.server.request_context import RequestContext, context_of, in_context, with_meta
from scrubjay.server.sessions.heartbeats import Heartbeats
from tests.support.fake_clock import FakeClock

_LEASE_S = 60


def _heartbeats() -> tuple[Heartbeats, FakeClock]:
    clock = FakeClock()
    return Heartbeats(clock, lease_us=_LEASE_S * 1_000_000), clock


def test_who_is_not_heard_of_for_as_long_as_a_lease_has_lapsed() -> None:
    heartbeats, clock = _heartbeats()
    heartbeats.hear("ann")
    clock.advance(_LEASE_S - 1)
    assert not heartbeats.lapsed("ann")
    assert heartbeats.left_us("ann") == 1_000_000
    heartbeats.hear("ann")
    clock.advance(_LEASE_S - 1)
    assert not heartbeats.lapsed("ann")

    clock.advance(1)

    assert heartbeats.lapsed("ann")


def test_who_waits_for_an_answer_is_there_however_long_it_takes() -> None:
    heartbeats, clock = _heartbeats()
    with heartbeats.busy("ann"):
        with heartbeats.busy("ann"):
            clock.advance(10 * _LEASE_S)
            assert not heartbeats.lapsed("ann")
        clock.advance(10 * _LEASE_S)
        assert not heartbeats.lapsed("ann")  # one of its two calls is still under way
    assert not heartbeats.lapsed("ann")
    clock.advance(_LEASE_S)
    assert heartbeats.lapsed("ann")


def test_after_a_start_everybody_has_the_time_of_a_lease_to_be_heard_of() -> None:
    heartbeats, clock = _heartbeats()
    clock.advance(_LEASE_S - 1)
    assert not heartbeats.lapsed("somebody of before")
    clock.advance(1)
    assert heartbeats.lapsed("somebody of before")


@pytest.mark.parametrize("seconds", [3600, -3600, 86_400, -86_400])
def test_r14_a_jump_of_the_clock_takes_nobodys_lease_and_lengthens_none(seconds: float) -> None:
    heartbeats, clock = _heartbeats()
    heartbeats.hear("ann")
    clock.advance(_LEASE_S / 2)

    clock.jump(seconds)

    assert heartbeats.left_us("ann") == _LEASE_S / 2 * 1_000_000
    clock.advance(_LEASE_S / 2)
    assert heartbeats.lapsed("ann")


def test_those_who_have_lapsed_are_forgotten_and_the_others_are_not() -> None:
    heartbeats, clock = _heartbeats()
    for number in range(10_000):
        heartbeats.hear(f"old {number}")
    clock.advance(_LEASE_S)
    for number in range(20_000):
        heartbeats.hear(f"new {number}")

    assert heartbeats.lapsed("old 1")
    assert not any(heartbeats.lapsed(f"new {number}") for number in range(20_000))


# Who holds what.

_AGENT = Principal("token:abc", "agent", "ann")


def test_each_connection_holds_for_itself_and_a_pod_for_all_of_its_own() -> None:
    plain = RequestContext(_AGENT)
    wire = RequestContext(_AGENT, connection=WireSessionId("w"))
    other_wire = RequestContext(_AGENT, connection=WireSessionId("v"))
    client = RequestContext(_AGENT, client="c")
    named = RequestContext(_AGENT, session="s")
    holders = [context.holder for context in (plain, wire, other_wire, client, named)]

    assert len(set(holders)) == 5
    assert RequestContext(_AGENT, client="c", connection=WireSessionId("w")).holder == client.holder
    pod = Principal("token:p", "pod", "worker", PodId("p" * 26))
    assert RequestContext(pod, client="c").holder == RequestContext(pod).holder == pod_holder("p" * 26)


def test_what_somebody_calls_their_connection_is_never_anothers() -> None:
    thief = Principal("token:thief", "agent", "thief")

    for client in ("c", "token:abc:c", "c:"):
        assert RequestContext(thief, client=client).holder != RequestContext(_AGENT, client=client).holder
    assert not RequestContext(thief, client="pod:" + "p" * 26).holder.startswith("pod:")


def test_the_head_of_a_request_says_which_connection_session_and_epoch() -> None:
    headers = [(b"Scrubjay-Session", b"abc"), (b"scrubjay-connection", b" me "), (b"Scrubjay-Epoch", b"7")]

    context = context_of({"headers": headers, "query_string": b"session=other"}, _AGENT)

    assert (context.session, context.client, context.epoch) == ("abc", "me", 7)
    assert context_of({"headers": [], "query_string": b"session=other"}, _AGENT).session == "other"
    for epoch in (b"", b"-1", b"x", b"1" * 19):
        assert context_of({"headers": [(b"Scrubjay-Epoch", epoch)]}, _AGENT).epoch is None
    assert len(context_of({"headers": [(b"Scrubjay-Session", b"a" * 9999)]}, _AGENT).session or "") == 200


def test_meta_names_a_session_for_one_request_and_nobody() -> None:
    context = RequestContext(_AGENT, session="of the connection")

    told = with_meta(context, {"dev.scrubjay/session": "s", "dev.scrubjay/epoch": 3, "principal": "token:other"})

    assert (told.handle, told.epoch, told.principal, told.session) == ("s", 3, _AGENT, "of the connection")
    for meta in (None, "x", {"dev.scrubjay/session": 7, "dev.scrubjay/epoch": True}):
        assert with_meta(context, meta) == context


def test_a_context_is_left_behind_when_its_request_is_over() -> None:
    from scrubjay.server.request_context import current_context

    one, other = RequestContext(_AGENT), RequestContext(_AGENT, client="c")
    with in_context(one):
        with in_context(other):
            assert current_context() is other
        assert current_context() is one
    with pytest.raises(LookupError):
        current_context()
