"""Nothing that is said to a keeper ends it, for its end is the end of its agent."""

from __future__ import annotations

import json
import socket
from struct import pack

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scrubjay.errors import KeeperGone, KeeperRefused
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member
from tests.support.processes import is_alive
from tests.support.tiers import sized

_WORDS = ("follow", "answer", "write", "resize", "signal", "mark", "event", "status", "nonsense")
_FIELDS = (
    *("id", "author", "label", "cols", "rows", "signal", "grace_ms", "from", "epoch", "answers", "at_terminal"),
    *("source", "seq", "event", "kind", "message"),
)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=5
)
_METAS = st.tuples(
    st.sampled_from(_WORDS) | _VALUES,
    st.dictionaries(st.sampled_from(_FIELDS), _VALUES | st.sampled_from(["test", 1, 0]), max_size=6),
)


def _send_raw(member: Member, data: bytes) -> bytes:
    """Send bytes to a keeper, and return the first of its answer, if there is one before it hangs up or we do."""
    with member.pod.connect() as keeper:
        keeper.socket.settimeout(0.2)
        keeper.socket.sendall(data)
        keeper.socket.shutdown(socket.SHUT_WR)
        try:
            return keeper.socket.recv(65536)
        except (TimeoutError, ConnectionResetError):
            return b""


def _frame(meta: bytes, tail: bytes = b"") -> bytes:
    return pack("<IH", 2 + len(meta) + len(tail), len(meta)) + meta + tail


def _assert_well(member: Member) -> None:
    with member.pod.connect() as keeper:
        status = keeper.status(timeout_s=DEADLINE_S)
    assert status is not None
    assert (status["keeper_pid"], status["agent_pid"]) == (member.keeper_pid, member.agent_pid)
    assert is_alive(member.agent_pid)


_HOSTILE = {
    "a verb that grows when it is sent back": {"do": "é" * 30_000, "id": 1},
    "a number that grows when it is sent back": {"do": "mark", "label": "x", "author": "x", "id": "é" * 30_000},
    "a number that is a text": {"do": "status", "id": "7"},
    "a grace that is no time": {"do": "stop", "author": "x", "grace_ms": 10**400},
    "a negative grace": {"do": "stop", "author": "x", "grace_ms": -1},
    "a place that is no offset": {"do": "follow", "from": 10**400},
    "a size beyond everything": {"do": "resize", "cols": 10**400, "rows": 65_536, "id": 1},
    "a text that is no Unicode": {"do": "mark", "label": "\ud800", "author": "\udfff", "id": 1},
    "a long label": {"do": "mark", "label": "x" * 60_000, "author": "x", "id": 1},
    "an author of controls": {"do": "write", "author": "\0" * 4096, "id": 1},
    "a signal that is none": {"do": "signal", "signal": "_IGN", "author": "x", "id": 1},
    "a verb that is a list": {"do": ["mark"], "id": 1},
    "nothing": {},
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_a_hostile_request_is_refused_or_does_nothing(shared_member: Member, name: str) -> None:
    _send_raw(shared_member, _frame(json.dumps(_HOSTILE[name], ensure_ascii=False).encode("utf-8", "surrogatepass")))
    _send_raw(shared_member, _frame(json.dumps(_HOSTILE[name]).encode()[:65_535]))

    _assert_well(shared_member)


@pytest.mark.parametrize("depth", [10, 200, 900, 980, 990, 995, 1000, 5000, 30_000])
def test_a_deep_request_is_refused_or_does_nothing(shared_member: Member, depth: int) -> None:
    for field in ("id", "do", "label"):
        deep = b"[" * depth + b"]" * depth
        _send_raw(shared_member, _frame(b'{"do":"mark","author":"x","label":"x","%s":%s}' % (field.encode(), deep)))

    _assert_well(shared_member)


@pytest.mark.parametrize(
    "data", [b"\xff" * 100, b"GET / HTTP/1.1\r\n\r\n", pack("<IH", 1 << 31, 4), _frame(b"{}")[:5], b""]
)
def test_bytes_that_are_no_frame_end_the_connection_and_nothing_else(shared_member: Member, data: bytes) -> None:
    _send_raw(shared_member, data)

    _assert_well(shared_member)


def test_no_request_ends_a_keeper(shared_member: Member) -> None:
    @settings(max_examples=sized(30, 300, 5000))
    @given(metas=st.lists(_METAS, min_size=1, max_size=8), tail=st.binary(max_size=200))
    def holds(metas: list[tuple[object, Json]], tail: bytes) -> None:
        assume(not any(do == "signal" and fields.get("signal") for do, fields in metas))
        frames = [_frame(json.dumps({"do": do} | fields).encode(), tail) for do, fields in metas]
        _send_raw_without_answer(shared_member, b"".join(frames))
        _assert_well(shared_member)

    holds()


def _send_raw_without_answer(member: Member, data: bytes) -> None:
    with member.pod.connect() as keeper:
        keeper.socket.sendall(data)


def test_a_client_that_never_reads_its_answers_is_hung_up_on(shared_member: Member) -> None:
    status = _frame(b'{"do":"status","id":1}')

    with shared_member.pod.connect() as keeper:
        keeper.socket.settimeout(DEADLINE_S)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            keeper.socket.sendall(status * 100_000)

    _assert_well(shared_member)


def test_a_hundred_clients_are_served(shared_member: Member) -> None:
    connections = [shared_member.pod.connect() for _ in range(100)]
    try:
        for number, connection in enumerate(connections):
            connection.ask({"do": "mark", "label": f"client {number}", "author": "test"})
    finally:
        for connection in connections:
            connection.close()

    assert {f"client {number}" for number in range(100)} <= set(shared_member.labels())


def test_an_unknown_request_is_refused_with_a_reason(shared_member: Member) -> None:
    with shared_member.pod.connect() as keeper, pytest.raises(KeeperRefused, match="not something a keeper does"):
        keeper.ask({"do": "dance"})


def test_a_request_after_the_end_is_refused(fleet: Fleet) -> None:
    # It ignores TERM for as long as its keeper lets it, so that there is a time between its end and the tape's.
    stays = 'trap "" TERM; echo stays; sleep 1000; sleep 1000'
    member = fleet.start("m", "sh", "-c", f"setsid sh -c '{stays}' & read x")
    eventually(lambda: b"stays" in member.output(), "it is there to stay")
    with member.pod.connect() as keeper:
        keeper.ask({"do": "write", "author": "test"}, b"\n")
        eventually(lambda: (keeper.status(timeout_s=DEADLINE_S) or {})["state"] == "ending", "it has ended")

        with pytest.raises(KeeperRefused, match="the agent has ended"):
            keeper.ask({"do": "write", "author": "test"}, b"x")
        with pytest.raises(KeeperRefused, match="the agent has ended"):
            keeper.ask({"do": "signal", "signal": "TERM", "author": "test"})
        keeper.ask({"do": "resize", "cols": 100, "rows": 50})
        keeper.ask({"do": "mark", "label": "after the end", "author": "test"})

    assert member.labels() == ["after the end"]
    assert member.records(Kind.RESIZE) == []


def test_marks_that_race_the_end_are_on_the_tape_or_not_acknowledged(fleet: Fleet) -> None:
    for number in range(sized(2, 20, 50)):
        member = fleet.start(f"m{number}", "sh", "-c", "read x")
        acknowledged: list[str] = []
        with member.pod.connect() as keeper:
            keeper.send({"do": "write", "author": "test"}, b"\n")
            try:
                while True:
                    label = f"mark {len(acknowledged)}"
                    keeper.ask({"do": "mark", "label": label, "author": "test"})
                    acknowledged.append(label)
            except (KeeperGone, KeeperRefused):
                pass

        assert member.labels()[: len(acknowledged)] == acknowledged
        assert member.records()[-1].kind == Kind.SEAL
