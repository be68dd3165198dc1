"""What is worth a notice, in which words, and what counts as the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.fleet.notices import BODY_MAX, TITLE_MAX, Notice, Watch, clean, fold
from scrubjay.ids import PodId
from scrubjay.settings import NoticeKind
from tests.support.tables import every_row

_POD = PodId("a" * 26)
_MINUTE_US = 60_000_000
_ALL: tuple[NoticeKind, ...] = ("needs_you", "failed", "done", "deadlock", "starving")


class _Life:
    """One pod, told of minute by minute."""

    def __init__(self, *, on: tuple[NoticeKind, ...] = _ALL, mask: Callable[[str], str] = str) -> None:
        self.watch = Watch(on, done_after_us=5 * _MINUTE_US, mask=mask)
        self.event("pod.started", name="builder", status={"process": "running"})

    def event(self, kind: str, minute: float = 0, /, **data: object) -> Notice | None:
        return self.watch.observe(kind, _POD, data, wall_us=int(minute * _MINUTE_US))

    def status(self, minute: float = 0, **status: object) -> Notice | None:
        return self.event("pod.status", minute, **({"process": "running"} | status))

    def exit(self, minute: float, exit_status: int, **status: object) -> Notice | None:
        return self.event("pod.exited", minute, process="exited", exit_status=exit_status, **status)


def _told(notice: Notice | None) -> tuple[str, str, str]:
    assert notice is not None
    return notice.kind, notice.name, notice.body


def test_a_program_that_ends_with_another_status_than_zero_has_failed() -> None:
    assert _told(_Life().exit(12, 3)) == ("failed", "builder", "ended with status 3 after 12 min")


@every_row("by", ["person:ada", "operator:ada", "agent:other"])
def test_what_somebody_stopped_has_not_failed(by: str) -> None:
    assert _Life().exit(12, 143, evidence={"stopped_by": by}) is None


def test_what_ended_with_the_machine_has_failed() -> None:
    assert _told(_Life().exit(12, 143, evidence={"stopped_by": "keeper"}))[0] == "failed"


def test_a_lost_pod_has_failed_and_says_why() -> None:
    lost = _Life().event("pod.lost", 1, process="lost", reason="keeper killed")

    assert _told(lost) == ("failed", "builder", "lost: keeper killed")


def test_a_pod_that_was_over_before_anybody_heard_of_it_is_told_of() -> None:
    watch = Watch(_ALL, done_after_us=0, mask=str)
    status = {"process": "exited", "exit_status": 1}

    assert watch.observe("pod.started", _POD, {"name": "quick", "status": status}, wall_us=5) is not None


@pytest.mark.parametrize("kind", ["pod.found", "pod.imported"])
def test_what_is_found_is_old_news(kind: str) -> None:
    watch = Watch(_ALL, done_after_us=0, mask=str)
    status = {"process": "exited", "exit_status": 1}

    assert watch.observe(kind, _POD, {"name": "old", "status": status, "created_us": 1}, wall_us=5) is None
    assert watch.observe("pod.status", _POD, status | {"evidence": {"more": 1}}, wall_us=6) is None


def test_an_end_is_told_once() -> None:
    life = _Life()

    assert life.exit(1, 1) is not None
    assert life.status(2, process="exited", exit_status=1, evidence={"found": "later"}) is None


@every_row(("minutes", "is_news"), [(4.9, False), (5, True), (600, True)])
def test_the_end_of_work_is_news_when_it_took_long(minutes: float, *, is_news: bool) -> None:
    assert (_Life().exit(minutes, 0) is not None) is is_news

    life = _Life()
    life.status(100, activity="executing")
    assert (life.status(100 + minutes, activity="idle") is not None) is is_news


def test_waiting_for_a_permission_is_a_part_of_the_same_work() -> None:
    life = _Life()
    life.status(0, activity="executing")
    life.status(4, activity="waiting", waiting_for="person:permission")
    life.status(5, activity="executing")

    assert _told(life.status(6, activity="idle")) == ("done", "builder", "finished after 6 min of work")
    life.status(7, activity="executing")
    assert life.status(8, activity="idle") is None


def test_an_agent_that_was_idle_is_not_done_once_more_when_it_exits() -> None:
    life = _Life()
    life.status(0, activity="executing")
    assert life.status(90, activity="idle") is not None

    assert life.exit(200, 0) is None


@every_row(
    ("waiting_for", "says"),
    [
        ("person:permission", "asks for a permission"),
        ("person:question", "asks a question"),
        ("person:other", "waits for you"),
    ],
)
def test_who_waits_for_a_person_needs_you(waiting_for: str, says: str) -> None:
    life = _Life()
    notice = life.status(1, activity="waiting", waiting_for=waiting_for)

    assert _told(notice) == ("needs_you", "builder", says)
    assert life.status(2, activity="waiting", waiting_for=waiting_for, confidence=0.9) is None


@every_row("waiting_for", ["pod:reviewer", "message", "quota", "nothing"])
def test_who_waits_for_something_else_does_not(waiting_for: str) -> None:
    assert _Life().status(1, activity="waiting", waiting_for=waiting_for) is None


def test_a_pod_that_sleeps_because_of_a_full_disk_needs_you() -> None:
    life = _Life()
    notice = life.status(1, process="paused", reason="disk full")

    assert _told(notice)[2] == "sleeps, for it cannot be recorded: disk full"
    assert notice is not None
    assert life.watch.holds(notice)
    life.status(2)
    assert not life.watch.holds(notice)


def test_an_agents_own_notification_counts_while_nobody_looks() -> None:
    life = _Life()

    assert life.watch.called(_POD, "notification", "Claude", "needs your permission", attended=True) is None
    called = life.watch.called(_POD, "notification", "Claude", "needs your permission", attended=False)
    assert _told(called) == ("needs_you", "builder", "Claude: needs your permission")
    assert _told(life.watch.called(_POD, "bell", "", "", attended=False))[2] == "rang the bell"


def test_a_bell_says_nothing_where_more_is_known_or_all_is_over() -> None:
    life = _Life()
    life.status(1, activity="executing")
    assert life.watch.called(_POD, "bell", "", "", attended=False) is None

    life.exit(2, 0)
    assert life.watch.called(_POD, "bell", "", "", attended=False) is None
    assert life.watch.called(PodId("b" * 26), "bell", "", "", attended=False) is None


def test_a_bell_counts_where_output_alone_tells_what_a_program_does() -> None:
    life = _Life()
    life.status(1, activity="executing", confidence=0.5)
    assert life.watch.called(_POD, "bell", "", "", attended=False) is not None

    life.status(2, activity="executing", confidence=0.98)
    assert life.watch.called(_POD, "bell", "", "", attended=False) is None


def test_a_wait_is_told_in_the_words_of_the_agent() -> None:
    evidence = {"detail": "approve Bash: rm -rf build"}
    asked = _Life().status(1, activity="waiting", waiting_for="person:permission", evidence=evidence)

    assert _told(asked) == ("needs_you", "builder", "asks for a permission: approve Bash: rm -rf build")


def test_an_agent_that_stopped_for_a_problem_has_failed_once() -> None:
    life = _Life()
    life.status(1, activity="executing")
    stopped = life.status(2, activity="idle", evidence={"problem": "API Error: 401"})

    assert _told(stopped) == ("failed", "builder", "stopped: API Error: 401")
    assert life.status(3, activity="idle", evidence={"problem": "API Error: 401", "at": 5}) is None


def test_the_same_wait_has_the_same_key_and_another_one_has_another() -> None:
    life = _Life()
    first = life.status(1, activity="waiting", waiting_for="person:permission")
    life.status(2, activity="executing")
    again = life.status(3, activity="waiting", waiting_for="person:permission")
    other = life.status(4, activity="waiting", waiting_for="person:question")

    assert first is not None
    assert again is not None
    assert other is not None
    assert first.key == again.key != other.key
    assert (life.watch.holds(first), life.watch.holds(other)) == (False, True)


def test_a_call_holds_until_somebody_comes_to_the_keyboard_or_it_ends() -> None:
    life = _Life()
    call = life.watch.called(_POD, "bell", "", "", attended=False)
    assert call is not None
    assert life.watch.holds(call)

    life.event("keyboard.taken", 1, by="ada")
    assert not life.watch.holds(call)

    life.watch.called(_POD, "bell", "", "", attended=False)
    life.event("pod.removed", 2)
    assert not life.watch.holds(call)


def test_what_nobody_wants_to_hear_is_not_said() -> None:
    life = _Life(on=("failed",))

    assert life.status(1, activity="waiting", waiting_for="person:question") is None
    assert life.watch.called(_POD, "bell", "", "", attended=False) is None
    assert life.exit(99, 1) is not None


def test_a_pod_that_is_renamed_is_told_of_by_its_new_name() -> None:
    life = _Life()
    life.event("pod.changed", 1, name="reviewer")

    assert _told(life.exit(2, 1))[1] == "reviewer"


def test_a_few_come_one_by_one_and_many_as_one() -> None:
    names = ["ada", "bob", "cyd", "dan", "eve", "fay"]
    many = [Notice("needs_you", PodId(name * 26), name, "call", f"says {name}") for name in names]

    assert [message.title for message in fold(many[:3], most=3)] == ["ada needs you", "bob needs you", "cyd needs you"]
    (message,) = fold(many, most=3)
    assert message.title == "6 pods need you: ada, bob, cyd, dan, eve, …"
    assert message.body.splitlines()[0] == "ada: says ada"


def test_kinds_are_not_mixed_and_what_needs_you_comes_first() -> None:
    notices = [Notice(kind, _POD, "ada", "x", "body") for kind in ("done", "failed", "needs_you")]

    assert [message.title for message in fold(notices, most=3)] == ["ada needs you", "ada failed", "ada is done"]


def test_a_deadlock_is_told_with_everybody_in_it_in_order_and_how_to_cut_it() -> None:
    told = _Life().event("deadlock.found", 1, deadlock="d" * 26, names=["builder", "tester", "reviewer"])

    kind, name, body = _told(told)
    assert (kind, name) == ("deadlock", "builder")
    assert body.startswith("builder waits for tester waits for reviewer waits for builder")
    assert "scrubjay why builder --cut" in body
    assert [message.title for message in fold([told] if told else [], most=3)] == ["builder is in a deadlock"]


def test_a_wait_that_takes_too_long_is_told_with_whom_it_is_for_and_why() -> None:
    life = _Life()
    told = life.event("wait.starved", 31, wait="w" * 26, on_name="tester", reason="the report", since_us=_MINUTE_US)

    assert _told(told) == ("starving", "builder", "has waited 30 min for tester: the report")
    assert told is not None
    assert told.key != getattr(life.event("wait.starved", 31, wait="v" * 26, since_us=0), "key", None)


def test_of_agents_outside_pods_it_is_told_by_their_names() -> None:
    watch = Watch(_ALL, done_after_us=0, mask=str)
    found = watch.observe("deadlock.found", None, {"deadlock": "d", "names": ["ci", "bot"]}, wall_us=0)
    late = watch.observe("wait.starved", None, {"wait": "w", "waiter_name": "ci", "since_us": 0}, wall_us=_MINUTE_US)

    assert _told(found) == ("deadlock", "ci", "ci waits for bot waits for ci; see it, and what to cut: scrubjay waits")
    assert _told(late) == ("starving", "ci", "has waited 1 min")
    assert watch.observe("pod.status", None, {"process": "lost"}, wall_us=0) is None


@pytest.mark.parametrize("source", ["message", "inferred"])
def test_a_person_who_is_asked_in_a_message_is_needed_until_that_is_answered(source: str) -> None:
    life = _Life()
    asked: dict[str, object] = {"wait": "w", "kind": "person", "source": source, "on_name": "ada"}
    told = life.event("wait.began", 1, **asked, reason="shall I push?")

    assert _told(told) == ("needs_you", "builder", "asks ada: shall I push?")
    assert told is not None
    assert life.watch.holds(told)
    assert life.event("wait.ended", 2, wait="w", outcome="met") is None
    assert not life.watch.holds(told)


@every_row(("kind", "source"), [("person", "prompt"), ("pod", "message"), ("channel", "inferred")])
def test_of_other_waits_nobody_is_told_when_they_begin(kind: str, source: str) -> None:
    assert _Life().event("wait.began", 1, wait="w", kind=kind, source=source, on_name="ada") is None


def test_what_is_not_wanted_of_waits_is_not_told() -> None:
    life = _Life(on=("needs_you",))

    assert life.event("deadlock.found", 1, deadlock="d", names=["builder"]) is None
    assert life.event("wait.starved", 1, wait="w", since_us=0) is None


def test_secrets_are_hidden_also_when_something_invisible_is_in_between() -> None:
    life = _Life(mask=lambda text: text.replace("hunter2", "***"))
    called = life.watch.called(_POD, "notification", "", "the password is hun\u200bt\x07er2", attended=False)

    assert _told(called)[2] == "the password is ***"


def test_a_chat_is_not_made_to_ring_everybody() -> None:
    assert (
        clean("@everyone <!channel> <@U123> a@b.c")
        == "@\u2060everyone <\u2060!channel> <\u2060@\u2060U123> a@\u2060b.c"
    )
    assert clean("\x1b[31mred\x1b[0m\x1b]0;title\x07 text\u202e!") == "red text!"


@given(st.text(), st.text(), st.text(max_size=2000))
def test_whatever_an_agent_says_becomes_short_plain_text(name: str, title: str, body: str) -> None:
    watch = Watch(_ALL, done_after_us=0, mask=str)
    watch.observe("pod.started", _POD, {"name": name, "status": {"process": "running"}}, wall_us=0)
    notice = watch.called(_POD, "notification", title, body * 3, attended=False)

    assert notice is not None
    for message in fold([notice] * 5, most=3) + fold([notice], most=3):
        assert len(message.body) <= BODY_MAX
        assert len(message.title) <= TITLE_MAX
        assert message.title.replace("\u2060", "").isprintable()
        assert message.body.replace("\u2060", "").replace("\n", "").isprintable()


@given(st.lists(st.tuples(st.text(), st.dictionaries(st.text(), st.none() | st.integers() | st.text())), max_size=20))
def test_events_of_any_shape_do_no_harm(events: list[tuple[str, dict[str, object]]]) -> None:
    watch = Watch(_ALL, done_after_us=0, mask=str)
    odd: list[tuple[str, dict[str, object]]] = [
        ("pod.started", {"status": 3}),
        ("deadlock.found", {"names": 7}),
        ("wait.starved", {"since_us": "x", "reason": 3}),
        ("wait.began", {"kind": "person", "source": 3}),
        ("pod.exited", {"exit_status": "x", "evidence": 1}),
    ]
    for kind, data in [*events, *odd]:
        watch.observe(kind, _POD, data, wall_us=0)
