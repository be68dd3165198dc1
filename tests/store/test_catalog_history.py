"""Every instant of the fleet's past reads as it was: against a model that keeps a copy of everything at every event."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from scrubjay.errors import NoSuchPod
from scrubjay.fleet.process import Activity, Process
from scrubjay.store import schema
from scrubjay.store.events import last_number, read_events
from scrubjay.store.notices import Mute, mute_of, mute_pod, muted_pods, unmute_pod
from scrubjay.store.pods import PodFacts, add_pod, change_pod, get_pod, list_pods, remove_pod
from scrubjay.store.status import Status, set_status, status_history
from tests.store.catalogs import pod_facts, pod_id
from tests.support.tiers import sized

_PODS = 3
_FACTS = (schema.pod_fact, schema.status, schema.mute)


@dataclass(frozen=True, slots=True)
class _Do:
    """Something that is done to the fleet, by a clock that may go back."""

    what: str
    pod: int
    step_us: int
    name: str
    status: Status


@dataclass(slots=True)
class _Model:
    """What the catalog should say."""

    wall_us: int = 100
    latest_us: int = 0
    pods: dict[int, tuple[PodFacts, Status]] = field(default_factory=dict[int, tuple[PodFacts, Status]])
    muted: set[int] = field(default_factory=set[int])
    removed: set[int] = field(default_factory=set[int])
    past: dict[int, list[Status]] = field(default_factory=dict[int, list[Status]])
    #: what held after each event, with the event's instant
    states: list[tuple[int, dict[int, tuple[PodFacts, Status]], set[int]]] = field(
        default_factory=list[tuple[int, dict[int, tuple[PodFacts, Status]], set[int]]]
    )

    def do(self, did: _Do) -> bool | None:
        """Do it; whether it should change something, None if there is no such pod."""
        self.wall_us = max(1, self.wall_us + did.step_us)
        pod, before = did.pod, self.pods.get(did.pod)
        now_us = max(self.latest_us, self.wall_us)
        status = replace(did.status, since_us=now_us)
        match did.what:
            case "add":
                if before is not None or pod in self.removed:
                    return False
                self.pods[pod] = (pod_facts(pod, name=did.name), status)
                self.past[pod] = [status]
            case _ if before is None:
                return False if pod in self.removed or did.what in ("remove", "unmute") else None
            case "status":
                if replace(before[1], since_us=0) == replace(status, since_us=0):
                    return False
                self.past[pod][-1] = replace(before[1], until_us=now_us)
                self.past[pod].append(status)
                self.pods[pod] = (before[0], status)
            case "change":
                if before[0].name == did.name:
                    return False
                self.pods[pod] = (pod_facts(pod, name=did.name), before[1])
            case "mute" | "unmute":
                if (pod in self.muted) == (did.what == "mute"):
                    return False
                self.muted ^= {pod}
            case _:
                self.past[pod][-1] = replace(before[1], until_us=now_us)
                del self.pods[pod]
                self.muted.discard(pod)
                self.removed.add(pod)
        self.latest_us = now_us
        self.states.append((now_us, dict(self.pods), set(self.muted)))
        return True

    def at(self, at_us: int) -> tuple[list[tuple[PodFacts, Status]], set[int]]:
        """What held at an instant."""
        states = [state for state in self.states if state[0] <= at_us]
        if not states:
            return [], set()
        _, pods, muted = states[-1]
        return [(facts, self._whole(pod, status)) for pod, (facts, status) in sorted(pods.items())], muted

    def _whole(self, pod: int, status: Status) -> Status:
        """A status of the past, with the end it came to."""
        (whole,) = [whole for whole in self.past[pod] if replace(whole, until_us=None) == status][-1:]
        return whole


def _do(connection: Connection, did: _Do, wall_us: int) -> bool | None:
    pod, status = pod_id(did.pod), did.status
    facts = pod_facts(did.pod, name=did.name)
    try:
        match did.what:
            case "add":
                return add_pod(connection, facts, status, wall_us=wall_us)
            case "status":
                return set_status(
                    connection,
                    pod,
                    process=status.process,
                    reason=status.reason,
                    exit_status=status.exit_status,
                    activity=status.activity,
                    waiting_for=status.waiting_for,
                    evidence=status.evidence,
                    confidence=status.confidence,
                    wall_us=wall_us,
                )
            case "change":
                return change_pod(connection, facts, wall_us=wall_us)
            case "mute":
                return mute_pod(connection, pod, wall_us=wall_us)
            case "unmute":
                return unmute_pod(connection, pod, wall_us=wall_us)
            case _:
                return remove_pod(connection, pod, wall_us=wall_us)
    except NoSuchPod:
        return None


_PROCESSES: list[Process] = ["running", "paused", "exited", "lost"]
_ACTIVITIES: list[Activity | None] = [None, "executing", "waiting"]
_statuses = st.builds(
    Status,
    process=st.sampled_from(_PROCESSES),
    reason=st.sampled_from([None, "keeper killed"]),
    exit_status=st.sampled_from([None, 0, 137]),
    activity=st.sampled_from(_ACTIVITIES),
    waiting_for=st.sampled_from([None, "input"]),
    evidence=st.sampled_from([{}, {"rule": "spinner", "lines": [1, 2]}]),
    confidence=st.sampled_from([None, 0.5, 1.0]),
)
_whats = ["add", "add", "add", "status", "status", "status", "status", "change", "mute", "unmute", "remove"]
_dids = st.lists(
    st.builds(
        _Do,
        what=st.sampled_from(_whats),
        pod=st.integers(0, _PODS - 1),
        step_us=st.sampled_from([0, 0, 1, 1, 2, 5, -1, -7, 1000]),
        name=st.sampled_from(["a", "b"]),
        status=_statuses,
    ),
    max_size=30,
)


@settings(max_examples=sized(30, 150, 5000), deadline=None)
@given(dids=_dids)
def test_every_instant_reads_as_it_was(emptied: Connection, dids: list[_Do]) -> None:
    model = _Model()

    with emptied.begin() as transaction:
        for did in dids:
            expected = model.do(did)
            assert _do(emptied, did, model.wall_us) == expected

        instants = {state[0] for state in model.states} | {0}
        for at_us in sorted({instant + near for instant in instants for near in (-1, 0, 1)}):
            _assert_reads_as(emptied, model, at_us, at_us)
        _assert_reads_as(emptied, model, model.latest_us, None)
        _assert_whole(emptied, model)
        transaction.rollback()


def _assert_reads_as(connection: Connection, model: _Model, at_us: int, asked_us: int | None) -> None:
    pods, muted = model.at(at_us)

    assert list_pods(connection, at_us=asked_us) == pods
    assert set(muted_pods(connection, wall_us=at_us, at_us=asked_us)) == {pod_id(pod) for pod in muted}
    for number in range(_PODS):
        (expected,) = [pod for pod in pods if pod[0].id == pod_id(number)] or [None]
        assert get_pod(connection, pod_id(number), at_us=asked_us) == expected
        assert (mute_of(connection, pod_id(number), wall_us=at_us, at_us=asked_us) is not None) == (number in muted)


def _assert_whole(connection: Connection, model: _Model) -> None:
    events = read_events(connection, limit=10_000)
    assert [event.number for event in events] == list(range(1, last_number(connection) + 1))
    assert [event.wall_us for event in events] == [state[0] for state in model.states]
    assert sorted(event.wall_us for event in events) == [event.wall_us for event in events]
    for number, past in model.past.items():
        assert status_history(connection, pod_id(number)) == past
    for table in _FACTS:
        for number in range(_PODS):
            query = select(table).where(table.c.pod == pod_id(number)).order_by(table.c.since_event)
            rows = connection.execute(query).all()
            for row, following in pairwise(rows):
                # Mutes may have time between them, everything else follows without a hole.
                gap = (following.since_us - row.until_us, following.since_event - row.until_event)
                assert gap == (0, 0) or (table is schema.mute and min(gap) >= 0)
            if rows:
                is_open = rows[-1].until_event is None
                assert is_open == (number in model.muted if table is schema.mute else number in model.pods)


def test_a_part_of_a_history_is_what_held_in_between(connection: Connection) -> None:
    add_pod(connection, pod_facts(0), Status("starting"), wall_us=10)
    for wall_us in (20, 30, 40):
        set_status(connection, pod_id(0), process="running", reason=str(wall_us), wall_us=wall_us)

    def between(since_us: int | None, until_us: int | None) -> list[int]:
        found = status_history(connection, pod_id(0), since_us=since_us, until_us=until_us)
        return [status.since_us for status in found]

    assert between(None, None) == [10, 20, 30, 40]
    assert between(20, 30) == [20]
    assert between(19, 31) == [10, 20, 30]
    assert between(99, None) == [40]
    assert between(None, 10) == []
    assert [status.since_us for status in status_history(connection, pod_id(0), limit=2)] == [10, 20]


def test_a_mute_ends_by_itself(connection: Connection) -> None:
    pod = pod_id(0)
    add_pod(connection, pod_facts(0), Status("running"), wall_us=1)

    assert mute_pod(connection, pod, wall_us=10, ends_us=20)
    assert not mute_pod(connection, pod, wall_us=11, ends_us=20)
    assert mute_of(connection, pod, wall_us=19) == Mute(20)
    assert muted_pods(connection, wall_us=19) == {pod: Mute(20)}
    assert mute_of(connection, pod, wall_us=20) is None
    assert muted_pods(connection, wall_us=20) == {}
    assert not unmute_pod(connection, pod, wall_us=21)

    assert mute_pod(connection, pod, wall_us=30, ends_us=40)  # again, longer, for good
    assert mute_pod(connection, pod, wall_us=31, ends_us=50)
    assert mute_pod(connection, pod, wall_us=32)
    assert mute_of(connection, pod, wall_us=99) == Mute()
    assert unmute_pod(connection, pod, wall_us=99)

    past = {
        at_us: mute_of(connection, pod, wall_us=100, at_us=at_us) for at_us in (9, 10, 19, 20, 29, 30, 31, 32, 98, 99)
    }
    assert past == {
        **dict.fromkeys((9, 20, 29, 99)),
        **dict.fromkeys((10, 19), Mute(20)),
        30: Mute(40),
        31: Mute(50),
        **dict.fromkeys((32, 98), Mute()),
    }


def test_events_say_what_changed(connection: Connection) -> None:
    add_pod(connection, pod_facts(0), Status("starting"), wall_us=1)
    add_pod(connection, pod_facts(1), Status("running"), wall_us=1, found=True)
    add_pod(connection, pod_facts(2, imported=True), Status("imported"), wall_us=1)
    set_status(connection, pod_id(0), process="running", activity="waiting", waiting_for="input", wall_us=2)
    change_pod(connection, pod_facts(0, branch="b"), wall_us=3)
    set_status(connection, pod_id(0), process="exited", exit_status=3, wall_us=4)
    set_status(connection, pod_id(0), process="exited", exit_status=3, evidence={"late": True}, wall_us=4)
    set_status(connection, pod_id(1), process="lost", reason="keeper killed", wall_us=5)
    mute_pod(connection, pod_id(0), wall_us=6)
    unmute_pod(connection, pod_id(0), wall_us=6)
    remove_pod(connection, pod_id(0), wall_us=7)

    events = read_events(connection)

    assert [(event.kind, event.wall_us) for event in events] == [
        ("pod.started", 1),
        ("pod.found", 1),
        ("pod.imported", 1),
        ("pod.status", 2),
        ("pod.changed", 3),
        ("pod.exited", 4),
        ("pod.status", 4),
        ("pod.lost", 5),
        ("pod.muted", 6),
        ("pod.unmuted", 6),
        ("pod.removed", 7),
    ]
    assert events[0].data["status"] == {"process": "starting"}
    assert events[0].data["argv"] == ["claude", "--model", "x"]
    assert events[3].data == {"process": "running", "activity": "waiting", "waiting_for": "input"}
    assert events[4].data == {"branch": "b"}
    assert events[5].data == {"process": "exited", "exit_status": 3}
    assert events[7].data == {"process": "lost", "reason": "keeper killed"}
    assert {event.pod for event in events} == {pod_id(0), pod_id(1), pod_id(2)}


def test_events_can_be_asked_for_by_number_pod_and_instant(connection: Connection) -> None:
    for number in range(4):
        add_pod(connection, pod_facts(number), Status("running"), wall_us=number)
        set_status(connection, pod_id(number), process="exited", wall_us=number)

    def numbers(**asked: object) -> list[int]:
        return [event.number for event in read_events(connection, **asked)]  # pyright: ignore[reportArgumentType]

    assert numbers(after=6) == [7, 8]
    assert numbers(limit=2) == [1, 2]
    assert numbers(pod=pod_id(1)) == [3, 4]
    assert numbers(until_us=1) == [1, 2, 3, 4]
    assert numbers(after=2, until_us=2, pod=pod_id(2), limit=1) == [5]
